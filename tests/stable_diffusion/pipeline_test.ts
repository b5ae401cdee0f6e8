/** Whole pipelines of Stable Diffusion against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { snakeCase } from "../../generation/field_values.ts";
import { readLora } from "../../models/lora/read_lora.ts";
import type { PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

/** Gates where LoRAs were written into weights, which are stored as bf16; beside the layers only convolutions are. */
const LORA_GATES = { merge: 1e-2, dynamic: 5e-4 } as const;

const GOLDENS = {
  pipeline: "StableDiffusionPipeline",
  inpainting: "StableDiffusionInpaintPipeline",
  lcm: "LatentConsistencyModelPipeline",
  xl_pipeline: "StableDiffusionXLPipeline",
  refiner: "StableDiffusionXLImg2ImgPipeline",
  depth: "StableDiffusionDepth2ImgPipeline",
  edit: "StableDiffusionInstructPix2PixPipeline",
  cosxl_edit: "StableDiffusionXLInstructPix2PixPipeline",
  playground: "StableDiffusionXLPipeline with EDM",
};

/** Settings that calls have under the names of the reference. */
const SETTINGS = [
  "clipSkip",
  "guidanceRescale",
  "imageGuidanceScale",
  "originalSize",
  "cropsCoordsTopLeft",
  "targetSize",
  "negativeOriginalSize",
  "negativeCropsCoordsTopLeft",
  "negativeTargetSize",
  "refinerStart",
  "aestheticScore",
  "negativeAestheticScore",
] as const satisfies readonly (keyof PipelineRequest)[];

/** Calls of other tests. */
const OTHERS = ["adapted", "chosen", "refined", "tcd", "turbo"];

const sd = new Golden("stable_diffusion/pipeline");
const xl = new Golden("stable_diffusion/xl_pipeline");

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  return {
    ...textRequest(call),
    ...Object.fromEntries(
      SETTINGS.filter((name) => args[snakeCase(name)] !== undefined)
        .map((name) => [name, args[snakeCase(name)]]),
    ),
    ...(inputs.includes("given") && {
      task: "TI2I" as const,
      images: [{ ...size, data: Uint8Array.from(golden.tensor(name, "given").data) }],
      ...(args["strength"] !== undefined && { strength: args["strength"] as number }),
    }),
    ...(inputs.includes("control") && {
      control: [{ ...size, data: Uint8Array.from(golden.tensor(name, "control").data) }],
    }),
    ...(inputs.includes("mask") && {
      mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
    }),
  };
}

for (const [folder, className] of Object.entries(GOLDENS)) {
  Deno.test(`${className}.generate() gives the reference's latents and images`, async (t) => {
    const golden = new Golden(`stable_diffusion/${folder}`);
    await withPipeline(async ({ pipeline }) => {
      for (const call of golden.calls.filter(({ name }) => !OTHERS.includes(name))) {
        const request = requestOf(golden, call);
        await t.step(call.name, () => checkImage(golden, call.name, pipeline, request));
      }
    }, { folder: golden.folder });
  });
}

for (const name of ["tcd", "turbo"]) {
  Deno.test(`StableDiffusionPipeline.generate() gives the reference's latents and images as distilled models sample, ${name}`, async () => {
    const call = sd.call(name);
    const folder = await Deno.makeTempDir();
    try {
      cpSync(sd.folder, folder, { recursive: true });
      const config = JSON.stringify(call.args["scheduler"]);
      await Deno.writeTextFile(`${folder}/scheduler/scheduler_config.json`, config);
      await withPipeline(
        ({ pipeline }) => checkImage(sd, name, pipeline, requestOf(sd, call)),
        { folder },
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

Deno.test("openPipeline() lets a user say what a model predicts, and that its schedule ends in noise alone", async () => {
  const parts = { predictionType: "v_prediction", rescaleBetasZeroSnr: true } as const;
  await withPipeline(async ({ pipeline }) => {
    await checkImage(xl, "chosen", pipeline, requestOf(xl, xl.call("chosen")));
  }, { folder: xl.folder, parts });
});

Deno.test("StableDiffusionXLPipeline.generate() lets a refiner take over, and gives the reference's", async () => {
  const parts = { refiner: `${new Golden("stable_diffusion/refiner").folder}/unet` };
  await withPipeline(async ({ pipeline }) => {
    assert.ok(pipeline.info.optionalParts.includes("refiner"));
    await checkImage(xl, "refined", pipeline, requestOf(xl, xl.call("refined")));
    const alone = { ...requestOf(xl, xl.call("guided")), refinerStart: 1 };
    await checkImage(xl, "guided", pipeline, alone);
  }, { folder: xl.folder, parts });
  const sdxlOnly = /Cannot use a refiner: only SDXL has one/;
  await assert.rejects(withPipeline(async () => {}, { folder: sd.folder, parts }), sdxlOnly);
});

for (
  const [golden, className] of [[sd, "StableDiffusionPipeline"], [
    xl,
    "StableDiffusionXLPipeline",
  ]] as const
) {
  Deno.test(`${className}.generate() gives the reference's with a LoRA on all components, under diffusers' names and kohya's`, async (t) => {
    await withPipeline(async ({ pipeline }) => {
      const call = golden.call("adapted");
      for (const [key, mode] of [["diffusers", "dynamic"], ["kohya", "merge"]] as const) {
        const path = `${golden.folder}/adapter-${key}.safetensors`;
        const lora = await readLora(path, pipeline.adaptable);
        assert.deepEqual(lora.unmatchedKeys, []);
        const strength = call.args["lora_strength"] as number;
        const targets = pipeline.adaptable.map(({ target }) => target);
        const loras = [{ key, lora, strength, mode, targets }];
        const request = { ...requestOf(golden, call), loras };
        await t.step(
          `${key}, ${mode}`,
          () => checkImage(golden, call.name, pipeline, request, LORA_GATES[mode]),
        );
      }
    }, { folder: golden.folder });
  });
}

Deno.test("StableDiffusionPipeline.generate() shows previews, tells progress and stops when cancelled", async () => {
  await withPipeline(async ({ pipeline }) => {
    const request = requestOf(sd, sd.call("text"));
    const told: string[] = [];
    const previews: Float32Array[] = [];
    const { frames } = await pipeline.generate(request, {
      previews: 2,
      onPreview: (frame) => void previews.push(frame.slice()),
      onProgress: ({ stage, step, totalSteps }) => told.push(`${stage} ${step}/${totalSteps}`),
    });
    assert.equal(previews.length, 2);
    // PNDM takes its second timestep twice.
    assert.deepEqual(told.filter((line) => line.startsWith("denoise")).at(-1), "denoise 6/6");
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
  }, { folder: sd.folder });
});

Deno.test("StableDiffusionXLPipeline.generate() makes the same image within any budget that it fits", async () => {
  const request = { ...requestOf(xl, xl.call("guided")), numInferenceSteps: 2 };
  await checkBudgets(xl.folder, request, [0.7, 0.45]);
});

Deno.test("StableDiffusionDepth2ImgPipeline.generate() needs a depth map, and draws from text, too", async () => {
  const depth = new Golden("stable_diffusion/depth");
  await withPipeline(async ({ pipeline }) => {
    const { control, images: _, strength: __, ...request } = requestOf(depth, depth.call("depth"));
    const text = { ...request, task: "T2I", numInferenceSteps: 1 } as const;
    await assert.rejects(pipeline.generate(text), /without a depth map/);
    const { frames } = await pipeline.generate({ ...text, control: control! });
    assert.ok(frames[0]!.every(Number.isFinite));
  }, { folder: depth.folder });
});

Deno.test("StableDiffusionPipeline.generate() refuses settings that the model has no room for", async () => {
  await withPipeline(async ({ pipeline }) => {
    const request = requestOf(sd, sd.call("text"));
    await assert.rejects(pipeline.generate({ ...request, clipSkip: 3 }), {
      name: "RangeError",
      message: "Cannot skip 3 layers of CLIP: the text encoder has 3; ask for 2 at most",
    });
  }, { folder: sd.folder });
});
