/** What a family may get wrong while it traces, or runs what it traced. */
import { strict as assert } from "node:assert";
import { copyTo, elementwise, f32, writing } from "../../runtime/mod.ts";
import { openTestDevice } from "../../tests/model_run.ts";
import { Session } from "./session.ts";
import { SessionRunner, type StageQueue } from "./session_runner.ts";

/** Traces stages, and runs what is queued. */
async function withSession(
  trace: (session: Session) => (queue: StageQueue) => Promise<void>,
): Promise<void> {
  const device = await openTestDevice();
  try {
    const session = new Session(device.target);
    const use = trace(session);
    const runner = new SessionRunner(session, {});
    await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
    await runner.run(use).finally(() => runner.destroy());
  } finally {
    device.destroy();
  }
}

Deno.test("Session.stage() takes a phase, and a name only once", async () => {
  const device = await openTestDevice();
  const session = new Session(device.target);
  device.destroy();
  assert.equal(session.stage("encode", { name: "text" }).phase, "encode");
  assert.throws(() => session.stage("denoise", { name: "text" }), /there is one/);
  // @ts-expect-error clients know no such phase
  session.stage("refine");
});

Deno.test("StageQueue.run() refuses to read back what no stage says is read", () =>
  withSession((session) => {
    const stage = session.stage("decode");
    const twice = stage.program("twice", { x: f32(4) }, ({ x }) => ({
      y: elementwise("2.0 * x", { x }),
      z: elementwise("3.0 * x", { x }),
    }));
    const { y, z } = twice.outputs;
    stage.willRead(y);
    return async (queue) => {
      const call = twice.call({ x: [1, 2, 3, 4] });
      let values: readonly number[] = [];
      await queue.run([call], { reads: [y], finished: ([read]) => values = [...read!] });
      await queue.finish();
      assert.deepEqual(values, [2, 4, 6, 8]);
      for (const reads of [[z], [y, z]]) {
        await assert.rejects(queue.run([call], { reads }), /declare it with willRead/);
      }
    };
  }));

Deno.test("StageQueue.run() refuses programs that read what nothing has written", () =>
  withSession((session) => {
    const stage = session.stage("denoise");
    const shared = session.tensor("scale", [1]);
    const state = stage.tensor("state", [4]);
    const first = stage.program("first", { x: f32(4) }, ({ x }) => copyTo(x, state));
    const scaled = stage.program(
      "scaled",
      { state, shared },
      ({ state, shared }) => elementwise("x * s", { x: state, s: shared }),
    );
    stage.willRead(scaled.outputs);
    return async (queue) => {
      await assert.rejects(queue.run([scaled.call({})]), /reads tensor "state", which nothing has/);
      await queue.run([first.call({ x: [1, 2, 3, 4] })]);
      await assert.rejects(queue.run([scaled.call({})]), /reads tensor "scale", which nothing has/);
      let values: readonly number[] = [];
      // A write alone waits for the next program.
      await queue.run([writing(shared, [3])]);
      await queue.run([scaled.call({})], {
        reads: [scaled.outputs],
        finished: ([y]) => values = [...y!],
      });
      await queue.finish();
      assert.deepEqual(values, [3, 6, 9, 12]);
    };
  }));
