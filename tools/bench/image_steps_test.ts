import assert from "node:assert/strict";
import { Z_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/z_image/config.ts";
import { benchImageSteps } from "./image_steps.ts";

Deno.test("benchImageSteps() times a step of every format and size", async () => {
  const config = Z_IMAGE_TRANSFORMER_CONFIG.parse({
    dim: 768,
    n_heads: 6,
    n_layers: 1,
    n_refiner_layers: 1,
  });
  const told: string[] = [];
  const figures = await benchImageSteps((line) => told.push(line), {
    config,
    formats: ["BF16", "Q8_0", "Q4_K"],
    sides: [32],
    rounds: 1,
  });
  assert.deepEqual(told, Object.keys(figures));
  assert.deepEqual(told, [
    "z-image bf16, step of 32x32",
    "z-image q8_0, step of 32x32",
    "z-image q4_k, step of 32x32",
  ]);
  for (const { value, unit } of Object.values(figures)) {
    assert.ok(value > 0);
    assert.equal(unit, "s");
  }
});
