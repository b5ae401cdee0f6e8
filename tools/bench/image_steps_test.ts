import assert from "node:assert/strict";
import { Z_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/z_image/config.ts";
import { FLUX2_TRANSFORMER_CONFIG } from "../../models/families/flux2/config.ts";
import { benchImageSteps } from "./image_steps.ts";
import { flux2Steps, zImageSteps } from "../../report/model_parts.ts";

Deno.test({
  name: "benchImageSteps() times a step of every format and size; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const zImage = Z_IMAGE_TRANSFORMER_CONFIG.parse({
      dim: 768,
      n_heads: 6,
      n_layers: 1,
      n_refiner_layers: 1,
    });
    const klein = FLUX2_TRANSFORMER_CONFIG.parse({
      num_attention_heads: 2,
      num_layers: 1,
      num_single_layers: 1,
    });
    const told: string[] = [];
    const figures = await benchImageSteps((line) => told.push(line), {
      models: [zImageSteps(zImage), flux2Steps(klein)],
      formats: ["BF16", "Q4_K"],
      sides: [32],
      rounds: 1,
    });
    assert.deepEqual(told, Object.keys(figures));
    assert.deepEqual(told, [
      "z-image bf16, step of 32x32",
      "z-image q4_k, step of 32x32",
      "flux2-klein bf16, step of 32x32",
      "flux2-klein q4_k, step of 32x32",
    ]);
    for (const { value, unit } of Object.values(figures)) {
      assert.ok(value > 0);
      assert.equal(unit, "s");
    }
  },
});
