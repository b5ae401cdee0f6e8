import { strict as assert } from "node:assert";
import { readComfyGraph } from "./comfy_graph.ts";
import { type FileRecipe, readRecipe, recipeFields } from "./read_recipe.ts";
import { type Recipe, recipeText } from "./recipe.ts";

/** What is read, and what is not used. */
function read(text: Record<string, string>): [Record<string, unknown>, FileRecipe["unused"]] {
  const recipe = readRecipe(text)!;
  return [{ source: recipe.source, ...recipeFields(recipe) }, recipe.unused];
}

const RECIPE: Recipe = {
  ...{ prompt: "a, b\nSteps: 3", negativePrompt: "dark", model: "org/m", seed: 7 },
  // As it was made, upscaled four times.
  ...{ width: 256, height: 128, numInferenceSteps: 2, guidanceScale: 1.5, strength: 0.5 },
  ...{ sampler: "uni_pc", sigmas: [1, 0.5], enableUpscaling: true, isMasked: true },
  loras: [{ path: "/x/style.safetensors", strength: 0.8, alpha: 3, mode: "merge" }],
};

const FIELDS = {
  ...{ source: "denoise", prompt: "a, b\nSteps: 3", negative_prompt: "dark", model: "org/m" },
  ...{ seed: 7, size: "64x32", num_inference_steps: 2, guidance_scale: 1.5, strength: 0.5 },
  ...{ sampler: "uni_pc", sigmas: [1, 0.5], enable_upscaling: true },
  loras: [{
    ...{ path: "/x/style.safetensors", strength: 0.8, target: "all", alpha: 3 },
    merge_mode: "merge",
  }],
};

Deno.test("readRecipe() gives back what recipeText() wrote, and what denoise 0.1 wrote", () => {
  const unused = ["the mask that it was made with, which --mask may name"];
  assert.deepEqual(read({ ...recipeText(RECIPE, "png") }), [FIELDS, unused]);
  const { source: _, loras, ...plain } = FIELDS;
  const older = {
    Software: "denoise 0.1.0",
    ...Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, String(value)])),
    ...{ masked: "true", parameters: "x", size: "256x128", loras: JSON.stringify(loras) },
  };
  assert.deepEqual(read(older), [FIELDS, unused]);
  // Where another program kept WebUI's text alone.
  const { parameters } = recipeText({ ...RECIPE, prompt: "a, b" }, "png");
  const [{ prompt, sampler, seed, loras: named }] = read({ parameters: parameters! });
  assert.deepEqual(
    { prompt, sampler, seed, named },
    {
      ...{ prompt: "a, b", sampler: "uni_pc", seed: 7 },
      named: [{ path: "style", strength: 0.8, target: "all" }],
    },
  );
});

Deno.test("readRecipe() reads AUTOMATIC1111's text, and names what cannot be used", () => {
  const text = "a fox, <lora:ink:0.5> red\nNegative prompt: dark\n" +
    "Steps: 20, Sampler: DPM++ 2M Karras, CFG scale: 7, Seed: 5, Size: 512x768, Model hash: 6ce0161689, " +
    'Model: v1-5, Denoising strength: 0.4, Clip skip: 2, Lora hashes: "ink: ab", Version: v1.10.1';
  assert.deepEqual(read({ parameters: text }), [{
    ...{ source: "AUTOMATIC1111", prompt: "a fox, red", negative_prompt: "dark", model: "v1-5" },
    ...{ seed: 5, size: "512x768", num_inference_steps: 20, guidance_scale: 7, strength: 0.4 },
    ...{ sampler: "dpmpp_2m", scheduler: "karras" },
    loras: [{ path: "ink", strength: 0.5, target: "all" }],
  }, ["Clip skip 2"]]);
  const odd = "a\nSteps: many, Sampler: DPM adaptive, Schedule type: Polyexponential, Seed: -1, " +
    "Size: 0x1, CFG scale: 3, Distilled CFG Scale: 3.5, Denoising strength: 0.4, Hires upscale: 2, Hires upscaler: R-ESRGAN";
  assert.deepEqual(read({ parameters: odd }), [
    {
      ...{ source: "AUTOMATIC1111", prompt: "a", guidance_scale: 3.5 },
      ...{ hires_scale: 2, hires_strength: 0.4 },
    },
    [
      ...["Hires upscaler R-ESRGAN", "sampler DPM adaptive"],
      ...["schedule Polyexponential", 'num_inference_steps "many"', 'seed "-1"', 'size "0x1"'],
    ],
  ]);
  const many = Array.from({ length: 500 }, (_, i) => `Thing ${i}: 1`).join(", ");
  const { unused } = readRecipe({ parameters: `a\nSteps: 5, ${many}` })!;
  assert.deepEqual([unused.length, unused.at(-1)], [21, "and 480 more"]);
  assert.equal(readRecipe({ parameters: "a photo of mine" }), undefined);
  assert.equal(readRecipe({}), undefined);
});

/** ComfyUI's own example with a LoRA, and a node that has both prompts. */
const GRAPH = {
  "3": {
    class_type: "KSampler",
    inputs: {
      ...{ seed: 156680208700286, steps: 20, cfg: 8, sampler_name: "euler_ancestral" },
      ...{ scheduler: "normal", denoise: 1, model: ["10", 0] },
      ...{ positive: ["11", 0], negative: ["11", 1], latent_image: ["5", 0] },
    },
  },
  "4": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: "v1-5.safetensors" } },
  "5": { class_type: "EmptyLatentImage", inputs: { width: 512, height: 768, batch_size: 1 } },
  "6": { class_type: "CLIPTextEncode", inputs: { text: "a fox", clip: ["10", 1] } },
  "7": { class_type: "CLIPTextEncode", inputs: { text: ["12", 0], clip: ["10", 1] } },
  "9": { class_type: "SaveImage", inputs: { filename_prefix: "x", images: ["8", 0] } },
  "10": {
    class_type: "LoraLoader",
    inputs: {
      ...{ lora_name: "ink.safetensors", strength_model: 0.7, strength_clip: 1 },
      ...{ model: ["13", 0], clip: ["13", 1] },
    },
  },
  "11": {
    class_type: "ControlNetApplyAdvanced",
    inputs: { negative: ["7", 0], positive: ["6", 0], strength: 1 },
  },
  "12": { class_type: "PrimitiveString", inputs: { value: "dark" } },
  "13": {
    class_type: "LoraLoader",
    inputs: {
      ...{ lora_name: "first.safetensors", strength_model: 1 },
      ...{ model: ["4", 0], clip: ["4", 1] },
    },
  },
  "14": {
    class_type: "KSampler",
    inputs: { positive: ["6", 0], latent_image: ["3", 0], seed: 1, denoise: 0.5 },
  },
};

Deno.test("readRecipe() tells the syntax of prompts of other programs that have weights", () => {
  const settings = "\nSteps: 20, Seed: 5";
  for (const prompt of ["a (red:1.2) fox", "[a]", "a BREAK b", "a\nNegative prompt: (b)"]) {
    const [fields] = read({ parameters: prompt + settings });
    assert.equal(fields["prompt_syntax"], "a1111", prompt);
  }
  const text = JSON.stringify(GRAPH).replace("a fox", "a (red:1.2) fox");
  assert.equal(read({ prompt: text })[0]["prompt_syntax"], "comfyui");
});

Deno.test("readRecipe() reads ComfyUI's graph by its links, from the first sampler", () => {
  assert.deepEqual(read({ prompt: JSON.stringify(GRAPH) }), [{
    ...{ source: "ComfyUI", prompt: "a fox", negative_prompt: "dark", model: "v1-5.safetensors" },
    ...{ seed: 156680208700286, size: "512x768", num_inference_steps: 20, guidance_scale: 8 },
    ...{ sampler: "euler_ancestral", scheduler: "normal" },
    loras: [
      { path: "first.safetensors", strength: 1, target: "all" },
      { path: "ink.safetensors", strength: 0.7, target: "all" },
    ],
  }, ["further sampling nodes: 1"]]);
});

Deno.test("readRecipe() reads samplers of ComfyUI whose parts are nodes, NaN, and seeds of 64 bits", () => {
  const text = `{
    "1": {"class_type": "SamplerCustomAdvanced", "is_changed": [NaN], "inputs": {
      "noise": ["2", 0], "guider": ["3", 0], "sampler": ["4", 0], "sigmas": ["5", 0], "latent_image": ["6", 0]}},
    "2": {"class_type": "RandomNoise", "inputs": {"noise_seed": 18446744073709551615}},
    "3": {"class_type": "BasicGuider", "inputs": {"model": ["7", 0], "conditioning": ["8", 0]}},
    "4": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
    "5": {"class_type": "BasicScheduler", "inputs": {
      "scheduler": "beta", "steps": ["10", 0], "denoise": 0.6, "model": ["7", 0]}},
    "6": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 64, "height": 32}},
    "7": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-dev.safetensors"}},
    "8": {"class_type": "FluxGuidance", "inputs": {"guidance": 3.5, "conditioning": ["9", 0]}},
    "9": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox", "clip": ["11", 0]}},
    "10": {"class_type": "PrimitiveInt", "inputs": {"value": 28}}
  }`;
  assert.deepEqual(read({ prompt: text }), [{
    ...{ source: "ComfyUI", prompt: "a fox", model: "flux1-dev.safetensors", seed: 2 ** 32 - 1 },
    ...{ size: "64x32", num_inference_steps: 28, guidance_scale: 3.5, strength: 0.6 },
    ...{ sampler: "euler", scheduler: "beta" },
  }, []]);
  for (const bad of ["a red heart", "{}", "[]", "null", '{"1": {"class_type": "x"}}', "{"]) {
    assert.equal(readRecipe({ prompt: bad }), undefined, bad);
  }
});

Deno.test("readRecipe() takes a recipe of ours that somebody changed in part, and says which", () => {
  const fields = {
    ...{ prompt: 5, seed: 1.5, size: [1], num_inference_steps: "x", guidance_scale: -1 },
    ...{ sampler: "plms", sigmas: ["a"], loras: [{ path: 1 }], quality: {}, strength: 0.5 },
    ...{ enable_upscaling: 3, of_a_newer_version: true, drawn_at: "1x1" },
  };
  const [kept, unused] = read({ denoise: JSON.stringify(fields) });
  assert.deepEqual(kept, { source: "denoise", strength: 0.5 });
  assert.equal(unused.length, Object.keys(fields).length - 2);
  assert.equal(unused.at(-1), "of_a_newer_version true");
  assert.equal(readRecipe({ denoise: "[1]" }), undefined);
});

Deno.test("readRecipe() takes no longer than its text is long", () => {
  const most = 2 ** 20;
  const nodes = (inputs: (id: number) => unknown, length = most) => {
    let text = "{";
    for (let id = 0; text.length < length; id++) {
      text += `${id ? "," : ""}"${id}":${JSON.stringify({ class_type: "", inputs: inputs(id) })}`;
    }
    return `${text}}`;
  };
  const all = (id: number) => ({
    ...{ positive: [`${id + 1}`], negative: [`${id + 1}`], latent_image: [`${id + 1}`] },
    ...{ model: [`${id + 1}`] },
  });
  const lora = "<lora:";
  const texts: Record<string, string>[] = [
    { prompt: nodes(all) },
    { prompt: nodes(() => ({ positive: ["0"], latent_image: ["0"], model: ["1"] })) },
    { prompt: "[".repeat(most) },
    { prompt: "NaN ".repeat(most / 4) },
    { denoise: `{"sigmas":[${"1,".repeat(most / 2)}1]}` },
    { denoise: JSON.stringify({ sampler: "x".repeat(most) }) },
    ...[lora, `${lora}a:`, `${lora}a:1:`, "a ", "<lora:a:1>"].map((pump) => ({
      parameters: `${pump.repeat(most / pump.length)}\nSteps: 1, Sampler: ${"a ".repeat(2 ** 14)}b`,
    })),
  ];
  for (const text of texts) {
    const start = performance.now();
    const recipe = readRecipe(text);
    const [[name, value]] = Object.entries(text) as [[string, string]];
    assert.ok(performance.now() - start < 1500, `${name} ${value.slice(0, 100)}`);
    assert.ok(recipe?.unused.every((words) => words.length < 400) ?? true);
    assert.ok((recipe?.loras.length ?? 0) <= 64);
  }
  assert.equal((readComfyGraph(nodes(all, 2 ** 16))?.others ?? 0) > 300, true);
});

Deno.test("readRecipe() reads no text with more values than anybody needs", () => {
  const node = (x: string) =>
    `{"1":{"class_type":"k","inputs":{"latent_image":["1"],"positive":["1"],"x":[${x}]}}}`;
  assert.equal(readRecipe({ prompt: node("1") })?.source, "ComfyUI");
  const keys = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, 1]));
  assert.equal(readRecipe({ prompt: node(Array(490_000).fill(1).join()) }), undefined);
  assert.equal(readRecipe({ denoise: JSON.stringify(keys) }), undefined);
});
