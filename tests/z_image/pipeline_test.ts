/** Whole Z-Image pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { readLora } from "../../models/lora/read_lora.ts";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage, LATENT_GATE } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

/** `LATENT_GATE` where LoRAs were written into weights, which are stored as bf16. */
const MERGED_GATE = 1e-2;

const IS_SLOW = Deno.env.has("DENOISE_SLOW");
/** Of the names and modes of a LoRA, which go together where not every pair is tried. */
const QUICK_MODES = { diffusers: "dynamic", original: "merge" } as const;

const golden = new Golden("z_image/pipeline");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  const limit = args["cfg_normalization"] as number | undefined;
  const end = args["cfg_truncation"] as number | undefined;
  return {
    ...textRequest(call),
    ...(limit !== undefined && { guidanceLimit: limit }),
    ...(end !== undefined && { guidanceEnd: end }),
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

/** What the gate checks; the slow set has images to start from and masks, too. */
const QUICK_CALLS = [golden.calls.find(({ inputs }) => inputs.includes("mask"))!.name];

Deno.test("ZImagePipeline.generate() gives the reference's latents and images, guided, from an image and by a mask too", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    for (const call of golden.calls.filter(({ name }) => name !== "adapted")) {
      if (!IS_SLOW && !QUICK_CALLS.includes(call.name)) continue;
      await t.step(call.name, () => checkImage(golden, call.name, pipeline, requestOf(call)));
    }
  }, { folder: golden.folder });
});

Deno.test("ZImagePipeline.generate() gives the reference's with a LoRA, under diffusers' names and the original ones", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const call = golden.call("adapted");
    for (const key of ["diffusers", "original"] as const) {
      const path = `${golden.folder}/adapter-${key}.safetensors`;
      const lora = await readLora(path, pipeline.adaptable);
      assert.deepEqual(lora.unmatchedKeys, []);
      for (const [mode, gate] of [["dynamic", LATENT_GATE], ["merge", MERGED_GATE]] as const) {
        if (!IS_SLOW && mode !== QUICK_MODES[key]) continue;
        const strength = call.args["strength"] as number;
        const loras = [{ key, lora, strength, mode, targets: ["transformer" as const] }];
        const request = { ...requestOf(call), loras };
        await t.step(
          `${key}, ${mode}`,
          () => checkImage(golden, call.name, pipeline, request, gate),
        );
      }
    }
  }, { folder: golden.folder });
});

Deno.test("ZImagePipeline.generate() shows previews, tells progress and stops when cancelled", async () => {
  await withPipeline(async ({ pipeline }) => {
    const request = requestOf(golden.call("text"));
    const told: string[] = [];
    const previews: number[] = [];
    const { frames } = await pipeline.generate(request, {
      previews: 2,
      onPreview: (frame, index) => {
        assert.equal(frame.length, request.width * request.height * 3);
        previews.push(index);
      },
      onProgress: ({ stage, step, totalSteps }) => told.push(`${stage} ${step}/${totalSteps}`),
    });
    assert.deepEqual(previews, [0, 1]);
    assert.deepEqual(told, [
      ...["encode 0/1", "encode 1/1"],
      ...["denoise 0/4", "denoise 1/4", "denoise 2/4", "denoise 3/4", "denoise 4/4"],
      ...["decode 0/1", "decode 1/1"],
    ]);
    let steps = 0;
    await assert.rejects(
      pipeline.generate({ ...request, seed: 3 }, {
        onProgress: ({ stage }) => {
          if (stage === "denoise") steps++;
        },
        isCancelled: () => steps >= 2,
      }),
      { name: "AbortError" },
    );
    const again = await pipeline.generate(request);
    const shape = [again.frames[0]!.length];
    const data = (frame: Float32Array) => ({ shape, data: frame });
    assertClose("after a cancelled one", data(again.frames[0]!), data(frames[0]!), 1e-6);
  }, { folder: golden.folder });
});

Deno.test("ZImagePipeline.generate() guides nothing where its guidance has ended before the first step", async () => {
  await withPipeline(async ({ pipeline }) => {
    const request = { ...requestOf(golden.call("text")), sigmas: [0.9, 0.7, 0.5, 0.2] };
    const { latents } = await pipeline.generate({ ...request, guidanceScale: 0 });
    const guided = { ...request, guidanceScale: 4, guidanceEnd: 0, guidanceLimit: 1 };
    const ended = await pipeline.generate(guided);
    const data = (data: Float32Array) => ({ shape: [data.length], data });
    assertClose("latents", data(ended.latents), data(latents), 1e-6);
  }, { folder: golden.folder });
});

Deno.test("ZImagePipeline.generate() makes the same image within any budget that it fits", async () => {
  const request = { ...requestOf(golden.call("picture")), numInferenceSteps: 2, strength: 1 };
  await checkBudgets(golden.folder, request, [0.7, 0.45]);
});

Deno.test("ZImagePipeline refuses requests that do not fit, and says what would", async () => {
  using pipeline = await openPipeline(golden.folder);
  assert.deepEqual(pipeline.info.supportedTasks, ["T2I", "TI2I"]);
  assert.equal(pipeline.info.sizeMultiple, 4);
  const device = await openTestDevice();
  try {
    await pipeline.load(device);
    const request = requestOf(golden.call("text"));
    const cases: readonly [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ width: 4096, height: 64 }, /the model has positions for 256x256/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ task: "T2V" }, /this model does T2I, TI2I/],
      [{ guidanceScale: 2, guidanceEnd: NaN }, /guidanceEnd of NaN/],
      [{ guidanceScale: 2, guidanceLimit: 0 }, /guidanceLimit of 0: it must be above 0/],
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
