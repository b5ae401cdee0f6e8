import { scaleFactor } from "../../autoencoders/kl/config.ts";
import type { PipelineInfo } from "../../pipeline.ts";
import { precisionsOf } from "../family_components.ts";
import type { ZImageComponents } from "./components.ts";
import { PATCH_SIDE } from "./config.ts";

/** Sides of pictures, in latents. */
const DEFAULT_SIDE = 128;

/** Largest shift of models that were distilled to few steps without guidance; Turbo has it, the base model more. */
const DISTILLED_SHIFT = 3;

/** What the pipeline says of itself. Settings are those of the published models and of diffusers' pipelines. */
export function zImageInfo(
  components: ZImageComponents,
  className: string,
  adaptable: PipelineInfo["adaptable"],
): PipelineInfo {
  const scale = scaleFactor(components.vae.config);
  const side = DEFAULT_SIDE * scale;
  const sampling = components.shift <= DISTILLED_SHIFT
    ? { numInferenceSteps: 8, guidanceScale: 0 }
    : { numInferenceSteps: 50, guidanceScale: 5 };
  return {
    className,
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    precisions: precisionsOf(components),
    defaults: { width: side, height: side, numFrames: 1, fps: 1, negativePrompt: "", ...sampling },
    taskDefaults: { TI2I: { strength: 0.6 } },
    sizeMultiple: scale * PATCH_SIDE,
    frameMultiple: 1,
    maxFrames: 1,
    maxPictures: 1,
    adaptable,
  };
}
