/** Which adapter WebGPU finds, which lists none: the driver's loader reads variables of the process whenever one is asked for. */
import { env, setEnv } from "../../platform/mod.ts";

/** What the loader is told. */
export interface AdapterEnvironment {
  /** Variables of the process by name. */
  readonly variables: Readonly<Record<string, string>>;
  /** One i32 that all threads share: variables belong to the process, so one thread asks at a time. */
  readonly lock: SharedArrayBuffer;
}

/** After how long the lock is taken all the same: a thread that was ended does not give it back. */
const PATIENCE_MS = 15_000;

/** Runs with variables set, and puts back what was there. */
export async function withEnvironment<Result>(
  environment: AdapterEnvironment | undefined,
  request: () => Promise<Result>,
): Promise<Result> {
  if (!environment) return await request();
  const lock = new Int32Array(environment.lock);
  const end = performance.now() + PATIENCE_MS;
  while (Atomics.compareExchange(lock, 0, 0, 1) !== 0 && performance.now() < end) {
    Atomics.wait(lock, 0, 1, 50);
  }
  const before = Object.keys(environment.variables).map((name) => [name, env(name)]);
  try {
    for (const [name, value] of Object.entries(environment.variables)) setEnv(name, value);
    return await request();
  } finally {
    for (const [name, value] of before) {
      setEnv(name!, value);
    }
    Atomics.store(lock, 0, 0);
    Atomics.notify(lock, 0);
  }
}
