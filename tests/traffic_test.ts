/** What a step of a full-size model moves between kernels and memory on a graphics card, as counted from its graph. */
import assert from "node:assert/strict";
import type { Target } from "../runtime/mod.ts";
import { MadeUpWeights } from "../report/made_up_weights.ts";
import { klein4B, type ModelPart, type Size, wan1B, zImage } from "../report/model_parts.ts";
import { matrixTarget } from "./support/matrix_target.ts";

const LARGE = 2 ** 31 - 4;
const TARGET = matrixTarget(undefined, {
  kilobytes: 48,
  limits: { maxBindingBytes: LARGE, maxBufferBytes: LARGE, maxStorageBuffers: 16 },
});

/** Gigabytes of one forward pass. */
function traffic(model: ModelPart, size: Size, operands: Target["operands"]): number {
  const weights = new MadeUpWeights("BF16", model.hasBias);
  const { graph } = model.trace({ ...TARGET, operands }, weights.root, size);
  return graph.dispatches.reduce((sum, { bytes }) => sum + bytes, 0) / 1e9;
}

const SQUARE = { width: 1024, height: 1024 };
const CASES: readonly [string, ModelPart, Size, exact: number, rounded: number][] = [
  ["Z-Image 1024x1024", zImage(), SQUARE, 76, 60],
  ["FLUX.2 klein 4B 1024x1024", klein4B(), SQUARE, 44, 32],
  ["Wan 2.1 1.3B 832x480x81", wan1B(21, 2), { width: 832, height: 480 }, 542, 375],
];

for (const [name, model, size, exact, rounded] of CASES) {
  Deno.test(`a step of ${name} moves at most ${exact} GB, and ${rounded} where factors are rounded`, () => {
    assert.ok(traffic(model, size, "f32") <= exact, `${traffic(model, size, "f32")} GB`);
    assert.ok(traffic(model, size, "f16") <= rounded, `${traffic(model, size, "f16")} GB`);
  });
}
