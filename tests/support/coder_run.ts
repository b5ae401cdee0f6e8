/** Autoencoders as pipelines run them, for tests. */
import { strict as assert } from "node:assert";
import type { Decoder } from "../../models/autoencoders/tiled_coder.ts";
import { Session, type Stage } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import type { Work } from "../../models/pipeline/work.ts";
import { type Device, Weights, writing } from "../../runtime/mod.ts";

/** Runs what is traced, to its end. */
export async function runSession(
  device: Device,
  weights: Weights | Readonly<Record<string, Weights>>,
  trace: (session: Session) => (work: Pick<Work, "run">) => Promise<void>,
): Promise<void> {
  const session = new Session(device.target);
  const run = trace(session);
  const runner = new SessionRunner(
    session,
    weights instanceof Weights ? { model: weights } : weights,
  );
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  try {
    await runner.run(run);
  } finally {
    runner.destroy();
  }
}

/** All that a coder gives for an input. */
export async function code(
  device: Device,
  weights: Weights,
  input: Float32Array,
  trace: (stage: Stage, name: string) => Decoder,
): Promise<Float32Array> {
  const told: number[] = [];
  const results: Float32Array[] = [];
  await runSession(device, weights, (session) => {
    const coder = trace(session.stage("decode"), "code");
    return (work) =>
      coder.run(work, {
        first: [writing(coder.input, input)],
        received: (done, result) => {
          told.push(done);
          if (result) results.push(result);
          if (done === coder.count) {
            assert.deepEqual(told, Array.from({ length: done }, (_, i) => i + 1));
          }
        },
      });
  });
  return Float32Array.from(results.flatMap((result) => [...result]));
}
