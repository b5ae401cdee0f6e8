import assert from "node:assert/strict";
import { Graph, type Tensor } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { groupNorm } from "./group_norm.ts";
import { layerNorm } from "./layer_norm.ts";
import { rmsNorm } from "./rms_norm.ts";

function tensorsOf(shapes: Record<string, number[]>): Record<string, Tensor> {
  const graph = new Graph("test", BASELINE_TARGET);
  const use = (name: string, shape: number[]) => graph.use(new DeviceTensor(name, shape));
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => [name, use(name, shape)]),
  );
}

Deno.test("layerNorm() and rmsNorm() refuse a weight that is not [C]", () => {
  const { x, weight } = tensorsOf({ x: [2, 8], weight: [7] });
  assert.throws(() => layerNorm(x!, { eps: 1e-6, weight }), /weight weight .*\[8\]/);
  assert.throws(() => rmsNorm(x!, { eps: 1e-6, weight }), /weight weight .*\[8\]/);
});

Deno.test("layerNorm() refuses a modulation that does not broadcast to x", () => {
  const shapes = { a: [2, 1, 4], b: [3, 1, 8], c: [1, 2, 5, 8], d: [2, 2, 8], e: [1] };
  const tensors = tensorsOf({ x: [2, 5, 8], ...shapes });
  for (const name of Object.keys(shapes)) {
    assert.throws(
      () => layerNorm(tensors["x"]!, { eps: 1e-6, scale: tensors[name] }),
      new RegExp(`scale ${name} .*does not broadcast`),
    );
  }
});

Deno.test("groupNorm() refuses groups that do not divide the channels", () => {
  const { x, bias } = tensorsOf({ x: [1, 4, 4, 6], bias: [5] });
  for (const groups of [4, 0, 1.5]) {
    assert.throws(() => groupNorm(x!, { groups, eps: 1e-6 }), /do not split/);
  }
  assert.throws(() => groupNorm(x!, { groups: 3, eps: 1e-6, bias }), /bias bias .*\[6\]/);
});
