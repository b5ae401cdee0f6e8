/** Whole Qwen-Image-2.1 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels with alpha. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { readTensors } from "../support/lora_files.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";
import { tensorsOf } from "../support/single_files.ts";

const golden = new Golden("qwen_image_21/pipeline");
const ignore = !Deno.env.has("DENOISE_SLOW");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  const bytes = (name: string, input: string) => Uint8Array.from(golden.tensor(name, input).data);
  const rgba = inputs.includes("given") ? bytes(name, "given") : undefined;
  return {
    ...textRequest(call),
    guidanceScale: args["true_cfg_scale"] as number | undefined ?? 1,
    ...(rgba && {
      task: "TI2I" as const,
      images: [{
        ...size,
        data: rgba.filter((_, i) => i % 4 < 3),
        alpha: rgba.filter((_, i) => i % 4 === 3),
      }],
      strength: args["strength"] as number,
    }),
    ...(inputs.includes("mask") && { mask: [bytes(name, "mask")] }),
  };
}

async function checkCalls(
  t: Deno.TestContext,
  pipeline: Pipeline,
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    await t.step(name, () => checkImage(golden, name, pipeline, requestOf(golden.call(name))));
  }
}

/** What trainers make of diffusers' names. */
const DIALECTS: readonly ((key: string) => string)[] = [
  (key) => key,
  (key) => key.replace("transformer.", "diffusion_model."),
  (key) => key.replace("transformer.", "base_model.model."),
  (key) => {
    const [, module, part] = /^transformer\.(.*)\.lora_([AB])\.weight$/.exec(key)!;
    const way = part === "A" ? "down" : "up";
    return `lora_unet_${module!.replaceAll(".", "_")}.lora_${way}.weight`;
  },
];

/** The golden's adapter, under the names of a dialect. */
async function loraOf({ adaptable }: Pipeline, rename: (key: string) => string) {
  const stored = tensorsOf(`${golden.folder}/adapter.safetensors`);
  const tensors = [...stored].map(([name, { shape, bytes }]) =>
    [rename(name), { dtype: "f16" as const, shape, bytes }] as const
  );
  const lora = await readTensors(Object.fromEntries(tensors), adaptable);
  assert.deepEqual(lora.unmatchedKeys, []);
  return lora;
}

Deno.test("QwenImage21Pipeline.generate() gives the reference's latents and images with guidance, and reads LoRAs in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.numInferenceSteps], [32, 40]);
    await checkCalls(t, pipeline, ["guided"]);
    const [first, ...others] = await Promise.all(
      DIALECTS.map((rename) => loraOf(pipeline, rename)),
    );
    for (const other of others) assert.deepEqual(other.changes, first!.changes);
    const cases: readonly [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 48 }, /the width must be a multiple of 32, for example 64/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes 1 to 3/],
      [{ flowShift: 3 }, /flowShift/],
    ];
    for (const [change, message] of cases) {
      const request = { ...requestOf(golden.call("guided")), ...change };
      await assert.rejects(pipeline.generate(request), { name: "RangeError", message });
    }
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() gives the reference's from text alone, of an empty prompt, by a mask and with a LoRA, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await checkCalls(t, pipeline, ["text", "empty", "masked"]);
      const call = golden.call("adapted");
      const applied = {
        key: "adapter",
        lora: await loraOf(pipeline, (key) => key),
        strength: call.args["strength"] as number,
      };
      const loras = [{ ...applied, mode: "dynamic" as const, targets: ["transformer" as const] }];
      await t.step(
        call.name,
        () => checkImage(golden, call.name, pipeline, { ...requestOf(call), loras }),
      );
      const request = requestOf(golden.call("empty"));
      const previews: number[] = [];
      await pipeline.generate(request, {
        previews: 2,
        onPreview: (frame, index) => {
          assert.equal(frame.length, request.width * request.height * 3);
          previews.push(index);
        },
      });
      assert.deepEqual(previews, [0, 1]);
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() gives the reference's from an image where the text encoder sees none; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withFolder({}, async (folder) => {
      cpSync(golden.folder, folder, { recursive: true });
      const path = `${folder}/text_encoder/config.json`;
      const { vision_config: _, ...config } = JSON.parse(Deno.readTextFileSync(path));
      Deno.writeTextFileSync(path, JSON.stringify(config));
      await withPipeline(({ pipeline }) => checkCalls(t, pipeline, ["picture"]), { folder });
    }),
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => {
    const request = { ...requestOf(golden.call("guided")), numInferenceSteps: 2 };
    return checkBudgets(golden.folder, request, [0.6, 0.45]);
  },
});
