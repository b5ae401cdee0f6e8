import { strict as assert } from "node:assert";
import { exifOf } from "../media/encode.ts";
import { MAX_EXIF_BYTES } from "../media/jpeg.ts";
import { readRecipe } from "./read_recipe.ts";
import { readWebuiText, type Recipe, recipeText, splitLoras, webuiText } from "./recipe.ts";

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

Deno.test("recipeText() tells of an area around a mask as WebUI does, and readRecipe() asks for the same again", () => {
  const area = {
    ...{ ...RECIPE, paddingMaskCrop: 16, maskBlur: 4, width: 200, height: 120 },
    drawnAt: { width: 64, height: 48 },
  };
  const text = recipeText(area, "png");
  assert.match(
    text.parameters!,
    /Size: 64x48, .*Denoising strength: 0\.5, Mask blur: 4, Inpaint area: Only masked, Masked area padding: 16/,
  );
  for (
    const { width, height, settings } of [
      readRecipe({ denoise: text.denoise! })!,
      readRecipe({ parameters: text.parameters! })!,
    ]
  ) {
    const { paddingMaskCrop, maskBlur } = settings;
    assert.deepEqual([width, height, paddingMaskCrop, maskBlur], [64, 48, 16, 4]);
  }
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

Deno.test("readWebuiText() reads what WebUI writes", () => {
  const settings =
    'Steps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 5, Size: 512x768, Model: "a, b", ' +
    'Lora hashes: "x: 1, y: \\"2\\"", Version: v1.10.1';
  assert.deepEqual(
    readWebuiText(`a cat,\nby the sea <lora:x:1>\nNegative prompt: dark:\nugly\n${settings}`),
    {
      prompt: "a cat,\nby the sea <lora:x:1>",
      negativePrompt: "dark:\nugly",
      settings: {
        ...{ Steps: "20", Sampler: "DPM++ 2M", "Schedule type": "Karras", "CFG scale": "7" },
        ...{ Seed: "5", Size: "512x768", Model: "a, b", "Lora hashes": 'x: 1, y: "2"' },
        Version: "v1.10.1",
      },
    },
  );
  for (
    const [text, prompt, negativePrompt] of [
      ["a cat", "a cat", ""],
      ["", "", ""],
      ["Steps: 3, Seed: 1", "", ""],
      ["Negative prompt: dark", "", "dark"],
      ["Negative prompt: dark\nSteps: 3", "", "dark"],
      ["a\nSteps: 3\nthat is all", "a\nSteps: 3\nthat is all", ""],
    ] as const
  ) {
    const read = readWebuiText(text);
    assert.deepEqual([read.prompt, read.negativePrompt], [prompt, negativePrompt], text);
  }
});

Deno.test("readWebuiText() gives back what webuiText() wrote", () => {
  const recipe = {
    ...{ prompt: "a, b\nc: d", negativePrompt: "x\ny", seed: 7, width: 64, height: 32 },
    ...{ model: 'a "b", c:\\d', numInferenceSteps: 4, guidanceScale: 1.5 },
  };
  const { prompt, negativePrompt, settings } = readWebuiText(webuiText(recipe));
  assert.deepEqual([prompt.trim(), negativePrompt], [recipe.prompt, recipe.negativePrompt]);
  assert.deepEqual([settings["Seed"], settings["Model"]], ["7", recipe.model]);
});

Deno.test("readWebuiText() takes no longer than its text is long", () => {
  const length = 2 ** 20;
  for (const line of ["", "Steps: 1, "]) {
    for (
      const pump of [
        "a",
        " ",
        ",",
        ":",
        "a:",
        'a:"',
        'a:"\\",',
        "x\n",
        "\n",
        "a:1,",
        "Negative prompt:\n",
      ]
    ) {
      for (const size of [2 ** 15, length]) {
        const text = line + pump.repeat(size / pump.length) + "!";
        const start = performance.now();
        readWebuiText(text);
        assert.ok(performance.now() - start < 300, JSON.stringify([line, pump]));
      }
    }
  }
});

Deno.test("splitLoras() reads the strength of the denoiser, and leaves what it cannot read as words", () => {
  const strengths: (readonly [string, number | undefined])[] = [
    ...[["", 1], [":0.5", 0.5], [":1:0", 0], [":1:0.5", 0.5], [": 0.5", 0.5]] as const,
    ...[[":unet=0.5", 0.5], [":te=1:unet=0.25", 0.25], [":1e-1", 0.1], [":+0.5", 0.5]] as const,
    ...[[":strong", undefined], [":1:", undefined]] as const,
  ];
  for (const [written, strength] of strengths) {
    const { prompt, loras } = splitLoras(`a <lora:b${written}>`);
    assert.deepEqual(loras, strength === undefined ? [] : [{ name: "b", strength }], written);
    assert.equal(prompt, strength === undefined ? `a <lora:b${written}>` : "a", written);
  }
});
