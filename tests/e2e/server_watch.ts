/** Whether a server answers all the time and keeps to its memory, as others see it. */

import assert from "node:assert/strict";
import type { HealthTarget, HealthTimes } from "./health_worker.ts";
import type { ServerProcess } from "./server_process.ts";

/** Longest time that `/health` may take, in milliseconds, waits for a processor that others have aside. */
const MAX_SILENCE = 200;

/** Most memory of the server and its processes together, in bytes. */
const MAX_MEMORY = 1.5e9;

/** Looks at a server all the time: how long it is silent, and how much memory it has. */
export class ServerWatch implements Disposable {
  readonly #worker = new Worker(new URL("./health_worker.ts", import.meta.url), { type: "module" });
  readonly #timer: ReturnType<typeof setInterval>;
  #silence = { whole: 0, own: 0 };
  #memory = 0;

  constructor({ url, pid }: ServerProcess) {
    this.#worker.onmessage = ({ data: { whole, own } }: MessageEvent<HealthTimes>) => {
      this.#silence.whole = Math.max(this.#silence.whole, whole);
      this.#silence.own = Math.max(this.#silence.own, own);
    };
    this.#worker.postMessage({ url, pid } satisfies HealthTarget);
    this.#timer = setInterval(() => this.#memory = Math.max(this.#memory, memoryOf(pid)), 25);
  }

  /** Forgets what was seen so far. */
  async reset(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 100));
    this.#silence = { whole: 0, own: 0 };
    this.#memory = 0;
  }

  /** Checks what was seen since. */
  async check(): Promise<void> {
    // An answer that is late comes late here too.
    await new Promise((resolve) => setTimeout(resolve, MAX_SILENCE));
    const { whole, own } = this.#silence;
    const megabytes = Math.round(this.#memory / 1e6);
    const silence = `${Math.round(own)} ms (${Math.round(whole)} ms as a client saw it)`;
    console.log(`silent for ${silence}; most memory ${megabytes} MB`);
    await this.reset();
    assert.ok(own < MAX_SILENCE, `nothing was answered for ${silence}`);
    assert.ok(megabytes * 1e6 < MAX_MEMORY, `the server took ${megabytes} MB`);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#worker.terminate();
  }
}

/** What a process and those that it started have in memory, in bytes. */
function memoryOf(pid: number): number {
  const parents = new Map<number, number>();
  for (const { name } of Deno.readDirSync("/proc")) {
    const stat = /^\d+$/.test(name) ? read(`/proc/${name}/stat`) : "";
    const parent = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1];
    if (parent !== undefined) parents.set(Number(name), Number(parent));
  }
  const isOurs = (each: number | undefined): boolean =>
    each === pid || (each !== undefined && each > 1 && isOurs(parents.get(each)));
  return [pid, ...parents.keys()].filter((each, i) => (i === 0 || each !== pid) && isOurs(each))
    .reduce(
      (sum, each) =>
        sum + 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${each}/status`))?.[1] ?? 0),
      0,
    );
}

/** A file, or nothing when its process has gone. */
function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
