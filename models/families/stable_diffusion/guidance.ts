/** Guidance of Stable Diffusion: its spread, and what models that were distilled with it see. */
import { elementwise, slice } from "../../../runtime/mod.ts";
import { squaredSpread } from "../../blocks/sums.ts";
import {
  type CombinedGuidance,
  type Guidance,
  guidedOutput,
  rescaledGuidance,
} from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";

/** Weight of the image by default. Source: `StableDiffusionInstructPix2PixPipeline`. */
const IMAGE_SCALE = 1.5;

/** Whether a model that edits is guided: by neither the prompt nor the image, or by both. */
export function isEditGuided(
  { guidanceScale, imageGuidanceScale = IMAGE_SCALE }: PipelineRequest,
): boolean {
  return guidanceScale > 1 && imageGuidanceScale >= 1;
}

/**
 * u + scale · (p − n) + imageScale · (n − u): n with the image and the negative prompt, u without the image, too.
 * Source: Brooks et al. 2023, "InstructPix2Pix: Learning to Follow Image Editing Instructions".
 */
export function editGuidance(
  { guidanceScale: scale, imageGuidanceScale: image = IMAGE_SCALE }: PipelineRequest,
  prompts: number,
): Guidance {
  return { weights: () => (prompts === 1 ? [1] : [scale, image - scale, 1 - image]) };
}

export function sdGuidance(
  { guidanceScale: scale, guidanceRescale = 0 }: PipelineRequest,
  prompts: number,
): Guidance {
  return rescaledGuidance(scale, guidanceRescale, prompts);
}

/**
 * g = n + scale · (p − n), mixed with g · σ(p)/σ(g), as spread as the prompt's own. The settings are scale and share.
 * Source: Lin et al. 2023, "Common Diffusion Noise Schedules and Sample Steps are Flawed".
 */
export const RESCALED_GUIDANCE: CombinedGuidance = {
  settings: 2,
  trace([positive, negative], settings) {
    const guided = guidedOutput(positive!, negative!, settings);
    const factor = elementwise("1.0 - share + share * sqrt(p / max(q, 1e-30))", {
      share: slice(settings, 2, 1, 2),
      p: squaredSpread(positive!),
      q: squaredSpread(guided),
    });
    return elementwise("x * factor", { x: guided, factor }, { name: "guided" });
  },
};

/** Sines, then cosines, of the scale. Source: `StableDiffusionPipeline.get_guidance_scale_embedding`. */
export function guidanceEmbedding(scale: number, dim: number): Float32Array {
  const half = dim / 2;
  return Float32Array.from({ length: dim }, (_, i) => {
    const angle = 1000 * (scale - 1) * Math.exp(-Math.log(10000) * (i % half) / (half - 1));
    return i < half ? Math.sin(angle) : Math.cos(angle);
  });
}
