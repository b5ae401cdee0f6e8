import assert from "node:assert/strict";
import {
  BASELINE_TARGET,
  copyTo,
  DeviceTensor,
  elementwise,
  Graph,
  planMemory,
} from "../../runtime/mod.ts";
import { describeStep, stepReport } from "./step_report.ts";

/** Three additions to 1024 elements, 4 KiB each: two intermediates that live one after the other, and one between. */
function planned(submitBudget = BASELINE_TARGET.submitBudget) {
  const graph = new Graph("step", { ...BASELINE_TARGET, submitBudget });
  const [x, y] = [new DeviceTensor("x", [1024]), new DeviceTensor("y", [1024])];
  let sum = graph.use(x);
  for (let i = 0; i < 4; i++) sum = elementwise("1.0 + x", { x: sum });
  copyTo(sum, y);
  return planMemory({ step: graph }).programs["step"]!;
}

Deno.test("stepReport() adds up work, bytes, and the slots that intermediates share", () => {
  const report = stepReport(planned(), { flopsPerSecond: 1e6, bytesPerSecond: 2e6 });
  assert.equal(report.dispatches, 4);
  assert.equal(report.flops, 4 * 1024);
  assert.equal(report.bytes, 4 * 2 * 4096);
  assert.equal(report.arithmeticMs, 4 * 1024 / 1e3);
  assert.equal(report.memoryMs, 4 * 4096 / 1e3);
  assert.equal(report.ceilingMs, report.memoryMs);
  assert.equal(report.intermediateBytes, 3 * 4096);
  assert.equal(report.slotBytes, 2 * 4096);
});

Deno.test("stepReport() counts the work of a dispatch once, however it is cut", () => {
  const whole = stepReport(planned(), { flopsPerSecond: 8e9, bytesPerSecond: 1e9 });
  const cut = stepReport(planned({ flops: 300, bytes: Infinity }), {
    flopsPerSecond: 8e9,
    bytesPerSecond: 1e9,
  });
  assert.ok(cut.dispatches > whole.dispatches);
  assert.deepEqual({ ...cut, dispatches: 0 }, { ...whole, dispatches: 0 });
});

Deno.test("describeStep() gives sums, ceiling and measured time", () => {
  const lines = describeStep(
    stepReport(planned(), { flopsPerSecond: 1e7, bytesPerSecond: 1e9 }),
    2,
  );
  assert.deepEqual(lines, [
    "4 dispatches, 0.0 MFLOP (0.41 ms), 0.03 MB moved (0.03 ms): 0.41 ms at the device's ceiling, 2.00 ms measured",
    "0.01 MB of intermediates in slots of 0.01 MB",
  ]);
});
