import assert from "node:assert/strict";
import { Graph } from "../../graph/graph.ts";
import { planMemory } from "../../program/plan.ts";
import { instantiate } from "../../program/executable.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { copyTo } from "../copy/mod.ts";
import { randomNormal } from "../ndarray.ts";
import { sampleBlocks } from "../sample_blocks.ts";
import { runCase } from "../../conformance.ts";
import { LINEAR_INT8_SUITE } from "./cases.ts";
import { linear } from "./mod.ts";
import { openTestDevice } from "../../../tests/support/model_run.ts";

Deno.test("linear() rounds x to int8 only where the target allows it, and w is integers in blocks", () => {
  for (const operands of ["f32", "f16", "int8"] as const) {
    for (const format of ["q8_0", "q4_0", "iq4_nl", "f16"] as const) {
      const target = { ...BASELINE_TARGET, operands, forcedVariants: { linear: "int8" } };
      const graph = new Graph("test", target);
      const x = graph.use(new DeviceTensor("x", [64, 64]));
      const w = graph.use(new DeviceTensor("w", [64, 64], format));
      if (operands === "int8" && format.startsWith("q")) {
        linear(x, w);
        assert.deepEqual(
          graph.dispatches.map(({ kernel }) => kernel.name),
          ["gemm/quantize_rows", `gemm/int8${format === "q8_0" ? " signed" : ""}`],
        );
      } else {
        assert.throws(() => linear(x, w), /this variant does not take the problem/);
      }
    }
  }
});

Deno.test("linear (int8) gives no numbers for rows that hold NaN or infinity, zeros for zeros", async () => {
  const device = await openTestDevice({ operands: "int8", forcedVariants: { linear: "int8" } });
  try {
    const [k, n] = [64, 8];
    const values = randomNormal([4, k], 1).data;
    values[k + 5] = NaN;
    values[2 * k + 7] = -Infinity;
    values.fill(0, 3 * k);
    const x = new DeviceTensor("x", [4, k]).allocate(device);
    x.write(values);
    const w = new DeviceTensor("w", [n, k], "q8_0").allocate(device);
    w.writeRows(sampleBlocks([n, k], "q8_0", 2, 0.1), 0);
    const y = new DeviceTensor("y", [4, n]).allocate(device);
    const graph = new Graph("test", device.target);
    copyTo(linear(graph.use(x), graph.use(w)), y);
    const programs = await instantiate(planMemory({ main: graph }), device);
    programs.get("main").submit();
    const result = await y.read();
    const rows = [0, 1, 2, 3].map((row) => [...result.subarray(row * n, (row + 1) * n)]);
    assert.ok(rows[0]!.every(Number.isFinite), `row 0: ${rows[0]}`);
    for (const row of [1, 2]) {
      assert.ok(!rows[row]!.some(Number.isFinite), `row ${row}: ${rows[row]}`);
    }
    assert.deepEqual(rows[3]!.map(Math.abs), new Array(n).fill(0));
  } finally {
    device.destroy();
  }
});

Deno.test("linear (int8) equals its reference with offsets, and with factors for half a block", async (t) => {
  const device = await openTestDevice({ operands: "int8", forcedVariants: { linear: "int8" } });
  try {
    for (const testCase of LINEAR_INT8_SUITE.cases) {
      if (!/^x \[3,768\] .* q[46]_k/.test(testCase.name)) continue;
      await t.step(testCase.name, () => runCase(device, testCase));
    }
  } finally {
    device.destroy();
  }
});
