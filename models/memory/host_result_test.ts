/** Results that wait in host memory: where they are, and that a plan knows it. */
import { strict as assert } from "node:assert";
import {
  BASELINE_TARGET,
  bytesPerElement,
  type Device,
  elementwise,
  f32,
  HostResult,
  SaturationError,
} from "../../runtime/mod.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";
import { Session } from "./session.ts";
import { SessionRunner, type StageQueue } from "./session_runner.ts";
import { bytesOf } from "./streaming.ts";

const PARTS = 4;
const SIZE = 1024;

/** A session that doubles numbers, and adds up parts of what came out, which wait in host memory. */
async function withSums(
  use: (sums: {
    readonly device: Device;
    readonly runner: SessionRunner;
    readonly result: HostResult;
    /** Doubles numbers; nothing runs the program where there are none. */
    sum(queue: StageQueue, x?: number): Promise<number[]>;
  }) => Promise<void>,
): Promise<void> {
  const device = await openTestDevice();
  try {
    const session = new Session(device.target);
    const stage = session.stage("denoise", { repeats: 2 });
    let result: HostResult | undefined;
    const double = stage.program("double", { x: f32(PARTS * SIZE) }, ({ x }) => {
      result = new HostResult(elementwise("2.0 * x", { x }), "doubled", [SIZE]);
    });
    const total = stage.program(
      "sum",
      { parts: result!.tensors },
      ({ parts }) => parts.reduce((sum, part) => elementwise("sum + x", { sum, x: part })),
    );
    const { outputs } = total;
    stage.willRead(outputs);
    const runner = new SessionRunner(session, {});
    const numbers = (x: number) => Float32Array.from({ length: PARTS * SIZE }, (_, i) => x + i);
    const sum = async (queue: StageQueue, x?: number) => {
      let values: number[] = [];
      if (x !== undefined) await queue.run([double.call({ x: numbers(x) })]);
      await queue.run([total.call({})], {
        reads: [outputs],
        finished: ([read]) => values = [...read!],
      });
      await queue.finish();
      return values;
    };
    await use({ device, runner, result: result!, sum });
    runner.destroy();
  } finally {
    device.destroy();
  }
}

/** Sums of the parts of doubled numbers. */
function expected(x: number): number[] {
  return Array.from({ length: SIZE }, (_, i) => 2 * (PARTS * (x + i) + SIZE * 6));
}

for (const budgetBytes of [Infinity, 0]) {
  const where = budgetBytes > 0
    ? "on the device where there is room"
    : "streamed where there is none";
  Deno.test(`HostResult gives other programs what was read, ${where}, and takes what is planned`, () =>
    withSums(async ({ device, runner, result, sum }) => {
      const plan = runner.plan({ budgetBytes });
      const isStreamed = !plan.isTogether;
      assert.deepEqual(
        [isStreamed, plan.waiting.size],
        budgetBytes > 0 ? [false, 0] : [true, PARTS],
      );
      device.resetPeak();
      await runner.allocate(device, plan);
      for (const round of [1, 2]) {
        await runner.run(async (queue) => {
          for (const x of [round, round + 10]) assert.deepEqual(await sum(queue, x), expected(x));
          assert.ok(result.tensors.every(({ hasHostCopy }) => hasHostCopy === isStreamed));
        });
        assert.ok(
          result.tensors.every(({ hasHostCopy }) => !hasHostCopy),
          "the host has its memory",
        );
      }
      assert.equal(device.peakBytes, plan.peakBytes);
      const meeting = { name: "", brought: [], taken: [], note: '["doubled"]' };
      assert.throws(() => result.meet(meeting), SaturationError);
      if (!isStreamed) return;
      const slabs = plan.stages[0]!.plan.slabBytes.reduce((sum, bytes) => sum + bytes);
      assert.ok(slabs < bytesOf(plan.waiting));
      await assert.rejects(runner.run(async (queue) => void await sum(queue)), {
        message: /^Cannot fill tensor "doubled 0": its program has not run/,
      });
    }));
}

Deno.test("HostResult refuses parts that leave something over", async () => {
  const device = await openTestDevice();
  const stage = new Session(device.target).stage("denoise");
  device.destroy();
  const cut = () =>
    stage.program(
      "x",
      { x: f32(4) },
      ({ x }) => void new HostResult(elementwise("2.0 * x", { x }), "x", [3]),
    );
  assert.throws(cut, /^RangeError: Cannot cut .* into parts of \[3\]: some is left/);
});

for (const operands of ["f32", "f16"] as const) {
  Deno.test(`HostResult is stored as ${operands} where GPUs compute with that`, () => {
    const features = { ...BASELINE_TARGET.features, f16: true };
    const session = new Session({ ...BASELINE_TARGET, schedule: "gpu", features, operands });
    let result: HostResult | undefined;
    const { graph } = session.stage("denoise").program("x", { x: f32(SIZE) }, ({ x }) => {
      result = new HostResult(elementwise("2.0 * x", { x }), "x");
    });
    assert.deepEqual(result!.tensors.map(({ dtype }) => dtype), [operands]);
    const broughtBytes = SIZE * bytesPerElement(operands);
    assert.deepEqual(graph.exchanges, [{ broughtBytes, takenBytes: 0, ranks: 1 }]);
  });
}
