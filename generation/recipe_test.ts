import { strict as assert } from "node:assert";
import { exifOf } from "../media/encode.ts";
import { MAX_EXIF_BYTES } from "../media/jpeg.ts";
import { type Recipe, recipeText } from "./recipe.ts";

const RECIPE: Recipe = {
  ...{ prompt: "a\0b \ud800", model: "org/m", seed: 7, width: 64, height: 32, layer: 0 },
  ...{ numInferenceSteps: 4, guidanceScale: 1.5, negativePrompt: "", strength: 0.5 },
  ...{
    sampler: "uni_pc",
    isMasked: true,
    loras: [{ path: "/x/style.safetensors", strength: 0.8 }],
  },
};

Deno.test("recipeText() says what ran in WebUI's words, and all of it as JSON", () => {
  for (const format of ["png", "jpeg", "webp"] as const) {
    const { Software, parameters, denoise, ...others } = recipeText(RECIPE, format);
    assert.deepEqual(others, {});
    assert.equal(
      parameters,
      "a\ufffdb \ufffd <lora:style:0.8>\nSteps: 4, Sampler: UniPC, Schedule type: Automatic, CFG scale: 1.5, " +
        `Seed: 7, Size: 64x32, Model: org/m, Denoising strength: 0.5, Version: ${Software}`,
    );
    assert.deepEqual(JSON.parse(denoise!), {
      ...{ prompt: "a\ufffdb \ufffd", model: "org/m", seed: 7, size: "64x32", sampler: "uni_pc" },
      ...{ num_inference_steps: 4, guidance_scale: 1.5, strength: 0.5, layer: 0, masked: true },
      loras: [{ path: "/x/style.safetensors", strength: 0.8, target: "all" }],
    });
  }
  const levels = { ...RECIPE, sigmas: [1, 0.5] };
  assert.doesNotMatch(recipeText(levels, "png").parameters!, /Schedule type/);
});

Deno.test("recipeText() shortens prompts where JPEG has no room, and only there", () => {
  const long = { ...RECIPE, prompt: "好".repeat(32_000), negativePrompt: "\u0001".repeat(32_000) };
  const { denoise } = recipeText(long, "webp");
  assert.equal(JSON.parse(denoise!).prompt.length, 32_000);
  const text = recipeText(long, "jpeg");
  assert.ok(exifOf(text).length <= MAX_EXIF_BYTES);
  assert.match(JSON.parse(text.denoise!).prompt, /^好{4000,}…$/);
  const usual = { ...RECIPE, prompt: "a ".repeat(5000) };
  assert.deepEqual(recipeText(usual, "jpeg"), recipeText(usual, "png"));
});
