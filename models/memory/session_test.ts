/** What a family may get wrong while it traces, or runs what it traced. */
import { strict as assert } from "node:assert";
import { copyTo, elementwise, f32, Weights, writing } from "../../runtime/mod.ts";
import { memoryTensors } from "../../tests/support/memory_tensors.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";
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

for (const [isLast, isUnified] of [[true, false], [true, true], [false, false]] as const) {
  const where = isUnified ? ", for the system's cache alone where memory is the adapter's" : "";
  const when = isLast
    ? `while the last program of this one runs${where}`
    : "after it, where none is the last";
  Deno.test(`StageQueue.run() reads the weights of the next stage ${when}`, async () => {
    const device = await openTestDevice();
    Object.assign(device.adapter, { isUnified });
    const events: string[] = [];
    const weightsOf = (name: string) => {
      const source = memoryTensors({ weight: [4] });
      const read: typeof source.read = (...given) => {
        events.push(`read ${name}`);
        source.read(...given);
      };
      return new Weights({ ...source, read });
    };
    const components = { first: weightsOf("first"), second: weightsOf("second") };
    try {
      const session = new Session(device.target);
      const [first, second] = Object.entries(components).map(([name, { root }]) => {
        const stage = session.stage("denoise", { name, repeats: 2 });
        const program = stage.program(
          "sum",
          { x: f32(4) },
          ({ x }, graph) => elementwise("x + w", { x, w: root.tensor(graph, "weight", [4]) }),
        );
        stage.willRead(program.outputs);
        return program;
      });
      const runner = new SessionRunner(session, components);
      const offloaded = new Set(Object.keys(components));
      await runner.allocate(device, runner.plan({ budgetBytes: Infinity, offloaded }));
      const x = [1, 2, 3, 4];
      for (let round = 0; round < 2; round++) {
        await runner.run(async (queue) => {
          const finished = () => events.push("finished first");
          await queue.run([first!.call({ x })], { finished });
          await queue.run([first!.call({ x })], { finished, isLast });
          await queue.run([second!.call({ x })], {
            reads: [second!.outputs],
            finished: ([values]) => events.push(`${values}`),
          });
        });
      }
      const weight = new Float32Array(Uint8Array.from({ length: 16 }, (_, i) => i).buffer);
      const sums = `${Float32Array.from(x, (value, i) => value + weight[i]!)}`;
      const ran = ["finished first", "finished first"];
      const between = [
        ...isLast ? ["read second"] : [],
        ...ran,
        ...isLast && !isUnified ? [] : ["read second"],
      ];
      const expected = ["read first", ...between, sums];
      assert.deepEqual(events, [...expected, ...expected]);
      runner.destroy();
    } finally {
      for (const weights of Object.values(components)) weights.destroy();
      device.destroy();
    }
  });
}
