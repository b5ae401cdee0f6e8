/** Whole pipelines of Stable Diffusion 3 against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { readLora } from "../../models/lora/read_lora.ts";
import type { PipelineRequest } from "../../models/mod.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage, LATENT_GATE } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

/** `LATENT_GATE` where LoRAs were written into weights, which are stored as bf16. */
const MERGED_GATE = 1e-2;

const isSlow = Deno.env.has("DENOISE_SLOW");
const GOLDEN = new Golden("stable_diffusion_3/pipeline");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const said = args as Record<string, number | undefined>;
  const request: PipelineRequest = {
    ...textRequest(call),
    ...(said["clip_skip"] !== undefined && { clipSkip: said["clip_skip"] }),
    ...(args["skip_guidance_layers"] !== undefined && {
      skipGuidanceLayers: args["skip_guidance_layers"] as number[],
      skipLayerGuidanceScale: said["skip_layer_guidance_scale"]!,
      skipLayerGuidanceStart: said["skip_layer_guidance_start"]!,
      skipLayerGuidanceStop: said["skip_layer_guidance_stop"]!,
    }),
  };
  if (!inputs.includes("given")) return request;
  const { shape, data } = GOLDEN.tensor(name, "given");
  const [height, width] = shape as [number, number];
  return {
    ...request,
    task: "TI2I",
    images: [{ width, height, data: Uint8Array.from(data) }],
    strength: said["strength"]!,
    ...(inputs.includes("mask") && { mask: [Uint8Array.from(GOLDEN.tensor(name, "mask").data)] }),
  };
}

const QUICK = ["skipped", "masked"];
const SPECIAL = ["without_t5", "adapted"];

async function checkImages(t: Deno.TestContext, isWanted: (name: string) => boolean) {
  await withPipeline(async ({ pipeline }) => {
    for (const call of GOLDEN.calls) {
      if (SPECIAL.includes(call.name) || !isWanted(call.name)) continue;
      await t.step(call.name, () => checkImage(GOLDEN, call.name, pipeline, requestOf(call)));
    }
  }, { folder: GOLDEN.folder });
}

Deno.test("Sd3Pipeline.generate() gives the images of diffusers, guided, away from a missing layer, by a mask", (t) =>
  checkImages(t, (name) => QUICK.includes(name)));

Deno.test({
  name:
    "Sd3Pipeline.generate() gives the images of diffusers: long prompts, odd sizes, Turbo, from an image; with DENOISE_SLOW",
  ignore: !isSlow,
  fn: (t) => checkImages(t, (name) => !QUICK.includes(name)),
});

Deno.test("Sd3Pipeline.generate() gives the image of diffusers without T5", () =>
  withPipeline(async ({ pipeline }) => {
    await checkImage(GOLDEN, "without_t5", pipeline, requestOf(GOLDEN.call("without_t5")));
  }, { folder: GOLDEN.folder, parts: { textEncoder3: "none" } }));

Deno.test("Sd3Pipeline.generate() applies LoRAs under diffusers' names and the original ones", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const call = GOLDEN.call("adapted");
    for (const key of isSlow ? ["diffusers", "original"] : ["original"]) {
      const path = `${GOLDEN.folder}/adapter-${key}.safetensors`;
      const lora = await readLora(path, pipeline.adaptable);
      assert.deepEqual(lora.unmatchedKeys, []);
      for (const [mode, gate] of [["dynamic", LATENT_GATE], ["merge", MERGED_GATE]] as const) {
        if (mode === "merge" && !isSlow) continue;
        const strength = call.args["strength"] as number;
        const use = { key, lora, strength, targets: ["transformer"] as const, mode };
        await t.step(
          `${key}, ${mode}`,
          () => checkImage(GOLDEN, call.name, pipeline, { ...requestOf(call), loras: [use] }, gate),
        );
      }
    }
  }, { folder: GOLDEN.folder });
});
