/** Whole Qwen-Image pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { kohya } from "../support/image_pipeline.ts";
import { readRenamed } from "../support/lora_files.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const golden = new Golden("qwen_image/pipeline");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  return {
    ...textRequest(call),
    guidanceScale: 1,
    trueCfgScale: args["true_cfg_scale"] as number,
    ...(name === "lightning" && { flowShift: 3 }),
    ...(inputs.includes("given") && {
      task: "TI2I" as const,
      images: [{ ...size, data: Uint8Array.from(golden.tensor(name, "given").data) }],
      strength: args["strength"] as number,
    }),
  };
}

Deno.test("QwenImagePipeline.generate() gives the reference's latents and images, guided, cut and from an image too", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    for (const name of ["text", "guided", "cut", "picture", "lightning"]) {
      const call = golden.call(name);
      await t.step(name, () => checkImage(golden, name, pipeline, requestOf(call)));
    }
  }, { folder: golden.folder });
});

/** What other programs make of the names of diffusers. */
const DIALECTS: Readonly<Record<string, (key: string) => string>> = {
  diffusers: (key) => key,
  ComfyUI: (key) => key.replace("transformer.", "diffusion_model."),
  kohya: kohya("transformer."),
};

Deno.test("QwenImagePipeline.generate() gives the reference's with a LoRA, in every dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const call = golden.call("adapted");
    const strength = call.args["strength"] as number;
    const path = `${golden.folder}/adapter.safetensors`;
    for (const [key, rename] of Object.entries(DIALECTS)) {
      const lora = await readRenamed(path, pipeline.adaptable, rename);
      const targets = ["transformer" as const];
      const loras = [{ key, lora, strength, mode: "dynamic" as const, targets }];
      await t.step(
        key,
        () => checkImage(golden, call.name, pipeline, { ...requestOf(call), loras }),
      );
    }
  }, { folder: golden.folder });
});

Deno.test("QwenImagePipeline.generate() makes the same image within any budget that it fits, without the modulation's weights while it denoises", async () => {
  const request = { ...requestOf(golden.call("guided")), numInferenceSteps: 2 };
  await checkBudgets(golden.folder, request, [0.6, 0.45]);
});

Deno.test("QwenImagePipeline refuses requests that do not fit, and says what would", async () => {
  using pipeline = await openPipeline(golden.folder);
  assert.deepEqual(pipeline.info.supportedTasks, ["T2I", "TI2I"]);
  assert.equal(pipeline.info.sizeMultiple, 8);
  assert.equal(pipeline.info.maxSequenceLength, 1024);
  const device = await openTestDevice();
  try {
    await pipeline.load(device);
    const request = requestOf(golden.call("text"));
    const cases: readonly [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 42 }, /the width must be a multiple of 8, for example 40/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ numInferenceSteps: 1 }, /shift_terminal 0.02 needs a last sigma below 1; take more steps/],
      [{ maxSequenceLength: 1025 }, /maxSequenceLength must be from 1 to 1024/],
    ];
    for (const [change, message] of cases) {
      await assert.rejects(pipeline.generate({ ...request, ...change }), {
        name: "RangeError",
        message,
      });
    }
  } finally {
    device.destroy();
  }
});

Deno.test("QwenImagePipeline.plan() keeps what denoises without what makes its modulation, where the budget holds that", async () => {
  using pipeline = await openPipeline(golden.folder);
  const { target } = await openTestDevice().then((device) => {
    device.destroy();
    return device;
  });
  const planWithin = (bytes: number) =>
    pipeline.plan({ width: 56, height: 40 }, {
      ...{ target, availableBytes: bytes },
      measure: () => bytes,
    });
  const { peakBytes } = await planWithin(Infinity);
  const weightsOf = async (share: number) => {
    const { stages, fits } = await planWithin(share * peakBytes);
    const { components } = stages.find(({ name }) => name === "begin")!;
    const { keptBytes, freedBytes } = components.find(({ name }) => name === "transformer")!;
    return fits && keptBytes > 0 && freedBytes > 0;
  };
  const found = await Promise.all([0.9, 0.8, 0.7, 0.6].map(weightsOf));
  assert.ok(found.includes(true), `${found}`);
});
