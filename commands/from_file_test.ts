import assert from "node:assert/strict";
import { encodeImage } from "../media/encode.ts";
import { encodePng } from "../media/png.ts";
import { Model, type ModelInfo } from "../mod.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { recipeIn } from "../tests/support/recipe_in.ts";
import { UsageError } from "./failure.ts";
import { fillFromFile, fitToModel } from "./from_file.ts";
import { runGenerate } from "./generate.ts";
import type { GenerateFlags } from "./flags.ts";
import { readOptions } from "./generate_flags.ts";

const PIXELS = { width: 16, height: 16, data: new Uint8Array(16 * 16 * 3) };
const FLAGS = {
  ...{ modelPath: "bundled", numOutputs: 1, outputPath: "", outputQuality: "default" },
} as GenerateFlags;

/** Flags, filled in from a file that says `fields`, and what came of them with a model. */
async function fill(
  fields: Record<string, unknown>,
  flags: Partial<GenerateFlags> = {},
  info: Partial<ModelInfo> = {},
) {
  const from = await Deno.makeTempFile({ suffix: ".png" });
  try {
    await Deno.writeFile(from, encodePng(PIXELS, { text: { denoise: JSON.stringify(fields) } }));
    const filled = await fillFromFile({ ...FLAGS, from, ...flags });
    const { from: _, modelPath: __, numOutputs: ___, ...all } = filled.flags;
    const options = await readOptions(filled.flags);
    const fitted = fitToModel(options, filled, { ...FAKE_INFO, ...info }, "image");
    const { outputPath: ____, outputQuality: _____, ...told } = all;
    return { flags: told, ...fitted, unused: [...filled.unused, ...fitted.unused] };
  } finally {
    await Deno.remove(from);
  }
}

Deno.test("fillFromFile() takes what flags leave out, and nothing over them", async () => {
  const recipe = {
    prompt: "a",
    seed: 5,
    size: "32x48",
    guidance_scale: 2,
    model: "/m/bundled.gguf",
  };
  const all = { prompt: "a", seed: [5], width: 32, height: 48, guidanceScale: 2 };
  const none = await fill(recipe);
  assert.deepEqual([none.flags, none.unused], [all, []]);
  const { flags } = await fill(recipe, { prompt: "b", seed: [7], size: "64x64", guidanceScale: 1 });
  assert.deepEqual(flags, { prompt: "b", seed: [7], size: "64x64", guidanceScale: 1 });
});

Deno.test("fillFromFile() names what cannot be used: models, LoRAs, what goes not with flags", async () => {
  const recipe = {
    ...{ prompt: "a", model: "org/other", sigmas: [1, 0.5], num_inference_steps: 2 },
    loras: ["outline", "org/lora", "//host/share/x"].map((path) => ({ path })),
  };
  const { flags, unused } = await fill(recipe, { numInferenceSteps: 8 });
  assert.deepEqual(flags.lora?.map(({ path }) => path), ["outline"]);
  assert.equal(flags.sigmas, undefined);
  assert.deepEqual(unused, [
    "--sigmas 1,0.5",
    "the LoRA org/lora, which --lora may name",
    "the LoRA //host/share/x, which --lora may name",
    "the model org/other, which --model-path may name",
  ]);
});

Deno.test("fitToModel() leaves out what a file gave and the model does not take, and only that", async () => {
  const recipe = {
    prompt: "a",
    size: "30x48",
    flow_shift: 3,
    num_inference_steps: 60,
    strength: 1,
  };
  const { options, unused } = await fill(recipe);
  assert.deepEqual(options, { prompt: "a" });
  assert.deepEqual(unused.map((why) => why.slice(0, 22)), [
    "the size: Cannot gener",
    "--num-inference-steps ",
    "--flow-shift 3: this m",
    "--strength 1: with T2I",
  ]);
  const flagged = await fill(recipe, { flowShift: 4, numInferenceSteps: 3 });
  assert.equal(
    flagged.options.flowShift,
    4,
    "what a flag says is refused by the model, not dropped",
  );
  assert.deepEqual((await fill(recipe, {}, { optionalSettings: ["flowShift"] })).options, {
    ...{ prompt: "a", flowShift: 3 },
  });
});

Deno.test("runGenerate() makes the same image again from its file, in every format", async () => {
  const folder = await Deno.makeTempDir();
  const engine = new FakeEngine({ info: { supportedTasks: ["T2I"], defaultTask: "T2I" } });
  const { log, error } = console;
  try {
    console.log = console.error = () => {};
    const generate = (flags: Partial<GenerateFlags>) =>
      runGenerate({ ...FLAGS, ...flags }, () => Promise.resolve(new Model(engine, "bundled")));
    const [first, again] = [`${folder}/a.png`, `${folder}/again.png`];
    await generate({ prompt: "a", seed: [7], size: "32x48", output: first });
    for (const from of [first, `${folder}/a.jpg`, `${folder}/a.webp`]) {
      if (from !== first) await generate({ from: first, output: from });
      await generate({ from, output: again });
      assert.deepEqual(await Deno.readFile(again), await Deno.readFile(first), from);
    }
    await generate({ from: first, seed: [8], output: again });
    assert.equal(recipeIn(await Deno.readFile(again)).seed, 8);
    const { bytes } = await encodeImage(PIXELS, { format: "png" });
    await Deno.writeFile(again, bytes);
    const says = (words: RegExp) => (error: Error) =>
      !(error instanceof UsageError) && words.test(error.message);
    await assert.rejects(generate({ from: again }), says(/does not say how it was made/));
    await Deno.writeTextFile(again, "text");
    await assert.rejects(generate({ from: again }), says(/again.png: the file is of no known/));
    await assert.rejects(generate({ from: `${folder}/none` }), says(/there is no such file/));
  } finally {
    Object.assign(console, { log, error });
    await Deno.remove(folder, { recursive: true });
  }
});
