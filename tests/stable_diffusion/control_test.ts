/** Stable Diffusion with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { checkControlled, controlRequest } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const SD = new Golden("stable_diffusion/pipeline");
const XL = new Golden("stable_diffusion/xl_pipeline");
const SD15 = new Golden("controlnets/sd15");
const UNION = new Golden("controlnets/sdxl_union");
const REDUCED = new Golden("controlnets/sdxl_reduced");

Deno.test("StableDiffusionPipeline.generate() is steered by a ControlNet as in diffusers: by weight and window, guided", (t) =>
  checkControlled(t, [SD15, SD], ["window"]));

Deno.test("StableDiffusionXLPipeline.generate() is steered as in diffusers by a ControlNet without attention", (t) =>
  checkControlled(t, [REDUCED, XL]));

Deno.test("StableDiffusionXLPipeline.generate() is steered by a Union ControlNet as in diffusers, by the kinds of one picture and of two in one pass", (t) =>
  checkControlled(t, [UNION, XL], ["depth", "unequal"]));

Deno.test("StableDiffusionPipeline.generate() is steered by a T2I-Adapter as in diffusers", (t) =>
  checkControlled(t, [new Golden("controlnets/sd15_adapter"), SD]));

Deno.test("StableDiffusionPipeline.generate() is steered by two ControlNets of unequal weights and windows as in diffusers, and in guess mode by an image with a hole", (t) =>
  checkControlled(t, [new Golden("controlnets/sd15_several"), SD15, SD], [
    "guided",
    "holed",
  ], { steersWhenAsked: true }));

Deno.test("StableDiffusionXLPipeline.generate() is steered by a ControlNet-LLLite as kohya's formula has it", (t) =>
  checkControlled(t, [new Golden("controlnets/sdxl_lllite"), XL], undefined, {
    controlnet: "net/lllite.safetensors",
  }));

Deno.test("StableDiffusionXLPipeline.generate() is steered by a Control-LoRA as in diffusers, with the biases of its file", (t) =>
  checkControlled(t, [new Golden("controlnets/sdxl_control_lora"), XL], undefined, {
    controlnet: "net/control-lora.safetensors",
  }));

Deno.test("StableDiffusionXLPipeline.generate() is steered by two ControlNets as in diffusers", (t) =>
  checkControlled(t, [new Golden("controlnets/sdxl_several"), new Golden("controlnets/sdxl"), XL]));

const SLOW = {
  "SD 1.5, by two nets, or one beside an adapter,": [
    new Golden("controlnets/sd15_several"),
    SD15,
    SD,
  ],
  "SDXL, with kinds of pictures,": [UNION, XL],
  "SD 1.5, by a light adapter,": [new Golden("controlnets/sd15_light_adapter"), SD],
  "SDXL, by an adapter,": [new Golden("controlnets/sdxl_adapter"), XL],
  "SD 1.5": [SD15, SD],
  "an inpainting UNet": [
    new Golden("controlnets/sd15_inpainting"),
    new Golden("stable_diffusion/inpainting"),
  ],
  "SD 1.5, without places": [new Golden("controlnets/sd15_pooled"), SD],
  SDXL: [new Golden("controlnets/sdxl"), XL],
} as const;

for (const [words, goldens] of Object.entries(SLOW)) {
  Deno.test({
    name:
      `${words} is steered by a ControlNet as in diffusers, from text, an image and a mask; with DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    fn: (t) => checkControlled(t, goldens),
  });
}

Deno.test("a ControlNet that waits for requests takes no memory when the model is loaded", async () => {
  const loadedBytes = async (folder: string, parts: ModelParts) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder, parts);
      await pipeline.load(device);
      return device.allocatedBytes;
    } finally {
      device.destroy();
    }
  };
  const controlnet = join(SD15.folder, "controlnet");
  await withComposed([SD], async (folder) => {
    const without = await loadedBytes(folder, {});
    assert.ok(await loadedBytes(folder, { controlnet }) > without);
    assert.equal(await loadedBytes(folder, { controlnet, steersWhenAsked: true }), without);
  });
});

Deno.test("openPipeline() refuses a ControlNet-LLLite whose projections the UNet lacks", () =>
  withComposed([new Golden("controlnets/sdxl_lllite"), SD], (folder) =>
    assert.rejects(
      openPipeline(folder, { controlnet: join(folder, "net/lllite.safetensors") }),
      /the ControlNet-LLLite's width of down_blocks\.1.* is 64, the transformer's is 0/,
    )));

Deno.test("StableDiffusionXLPipeline.generate() refuses balances that differ between the pictures of one pass", () =>
  withComposed([UNION, XL], async (folder) => {
    await withPipeline(async ({ pipeline }) => {
      const request = controlRequest(UNION, UNION.call("joint"));
      await assert.rejects(
        pipeline.generate({ ...request, controlBalance: ["prompt", "balanced"] }),
        /Cannot use several values of controlBalance: a Union ControlNet/,
      );
    }, { folder });
  }));

Deno.test("openPipeline() refuses ControlNets of other models of Stable Diffusion, with the size", async () => {
  const controlnet = join(SD15.folder, "controlnet");
  await withComposed([XL], (folder) =>
    assert.rejects(
      openPipeline(folder, { controlnet }),
      /the ControlNet's cross_attention_dim is 32, the transformer's cross_attention_dim is 72/,
    ));
});
