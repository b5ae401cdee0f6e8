/** Whole ERNIE-Image pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { readTensors } from "../support/lora_files.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { tensorsOf } from "../support/single_files.ts";

const golden = new Golden("ernie_image/pipeline");
const ignore = !Deno.env.has("DENOISE_SLOW");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  return {
    ...textRequest(call),
    ...(inputs.includes("given") && {
      task: "TI2I" as const,
      images: [{ ...size, data: Uint8Array.from(golden.tensor(name, "given").data) }],
      strength: args["strength"] as number,
    }),
    ...(inputs.includes("mask") && {
      mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
    }),
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

Deno.test("ErnieImagePipeline.generate() gives the reference's latents and images, guided, by a mask and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [4, 4]);
    await checkCalls(t, pipeline, ["guided", "masked"]);
    const [first, ...others] = await Promise.all(
      DIALECTS.map((rename) => loraOf(pipeline, rename)),
    );
    for (const other of others) assert.deepEqual(other.changes, first!.changes);
    const call = golden.call("adapted");
    const applied = { key: "adapter", lora: first!, strength: call.args["strength"] as number };
    const loras = [{ ...applied, mode: "dynamic" as const, targets: ["transformer" as const] }];
    await t.step(
      call.name,
      () => checkImage(golden, call.name, pipeline, { ...requestOf(call), loras }),
    );
    const cases: readonly [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ trueCfgScale: 3 }, /trueCfgScale/],
    ];
    for (const [change, message] of cases) {
      const request = { ...requestOf(call), ...change };
      await assert.rejects(pipeline.generate(request), { name: "RangeError", message });
    }
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "ErnieImagePipeline.generate() gives the reference's from text alone and from an image, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await checkCalls(t, pipeline, ["text", "empty", "picture"]);
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
    "ErnieImagePipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => {
    const request = { ...requestOf(golden.call("guided")), numInferenceSteps: 2 };
    return checkBudgets(golden.folder, request, [0.6, 0.45]);
  },
});
