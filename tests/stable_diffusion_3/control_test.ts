/** Stable Diffusion 3 with ControlNets against diffusers. */
import { checkControlled } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";

const JOINT = new Golden("controlnets/sd3");
const LARGE = new Golden("controlnets/sd3_large");
const INPAINTING = new Golden("controlnets/sd3_inpaint");
const MODEL = new Golden("stable_diffusion_3/pipeline");
const isSlow = Deno.env.has("DENOISE_SLOW");

Deno.test({
  name:
    "Sd3Pipeline.generate() is steered by a ControlNet of text and image as in diffusers, for a part of the steps too; with DENOISE_SLOW",
  ignore: !isSlow,
  fn: (t) => checkControlled(t, [JOINT, MODEL]),
});

Deno.test("Sd3Pipeline.generate() is steered by a ControlNet that has the transformer's embedding, as in diffusers", (t) =>
  checkControlled(t, [LARGE, MODEL]));

Deno.test({
  name:
    "Sd3Pipeline.generate() paints what a mask says as a ControlNet for inpainting sees it, as in diffusers; with DENOISE_SLOW",
  ignore: !isSlow,
  fn: (t) => checkControlled(t, [INPAINTING, MODEL]),
});
