import { strict as assert } from "node:assert";
import { BASELINE_TARGET, DeviceTensor, Graph, type Target } from "../../../runtime/mod.ts";
import { matrixTarget } from "../../../tests/support/matrix_target.ts";
import { FrameHistory } from "./history.ts";

const GPU = matrixTarget();

Deno.test("FrameHistory keeps in f16 what a convolution may round to f16 on GPUs, and all else in f32", () => {
  const kept = (target: Target, channels: number) => {
    const history = new FrameHistory();
    for (const place of ["first", "next"] as const) {
      const graph = new Graph(place, target);
      const x = graph.use(new DeviceTensor("x", [1, 2, 8, 8, channels]));
      const weight = graph.use(new DeviceTensor("weight", [64, 3, 3, 3, channels], "f16"));
      history.convolve(place, "conv", 2, x, weight, { padding: [1, 1, 1, 1] });
      history.reserve(place, "later", 2, x);
    }
    return Object.fromEntries([...history.tensors].map(({ name, dtype }) => [name, dtype]));
  };
  const asTheyAre = { "history conv": "f32", "history later": "f32" };
  const rounded = { "history conv": "f16", "history later": "f32" };
  assert.deepEqual(kept({ ...GPU, operands: "f16" }, 64), rounded);
  assert.deepEqual(kept({ ...GPU, operands: "f32" }, 64), asTheyAre);
  assert.deepEqual(kept({ ...matrixTarget([]), operands: "f16" }, 64), rounded);
  assert.deepEqual(kept({ ...matrixTarget([]), schedule: "cpu" }, 64), asTheyAre);
  assert.deepEqual(kept({ ...BASELINE_TARGET, operands: "f16" }, 64), asTheyAre);
  // f16 is stored by fours.
  assert.deepEqual(kept({ ...GPU, operands: "f16" }, 6), asTheyAre);
});
