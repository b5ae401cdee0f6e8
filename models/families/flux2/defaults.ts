import { scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import type { PipelineInfo } from "../../pipeline.ts";
import { precisionsOf } from "../family_components.ts";
import type { Flux2Components } from "./components.ts";

/** Sides of a result, in latents. */
const DEFAULT_SIDE = 128;
/** Most pictures that an edit may bring; the models were trained with a few. */
const MAX_PICTURES = 10;
/** What the reference scales larger pictures down to, in pixels. */
const MAX_PICTURE_PIXELS = 1024 * 1024;
/** Shortest side of a given picture, and how much longer the other may be, as the reference allows. */
const MIN_PICTURE_SIDE = 64;
const MAX_PICTURE_ASPECT = 8;

/** What the pipeline says of itself. */
export function flux2Info(
  components: Flux2Components,
  className: string,
  adaptable: PipelineInfo["adaptable"],
): PipelineInfo {
  const { pipeline, vae } = components;
  const scale = scaleFactor(vae.config);
  const side = DEFAULT_SIDE * scale;
  const sizeMultiple = scale * PACKED_SIDE;
  const sampling = pipeline.is_distilled
    ? { numInferenceSteps: 4, guidanceScale: 1 }
    : { numInferenceSteps: 50, guidanceScale: 4 };
  return {
    className,
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    precisions: precisionsOf(components),
    defaults: { width: side, height: side, numFrames: 1, fps: 1, negativePrompt: "", ...sampling },
    taskDefaults: {},
    sizeMultiple,
    frameMultiple: 1,
    maxFrames: 1,
    maxPictures: MAX_PICTURES,
    pictureLimits: {
      multiple: sizeMultiple,
      maxPixels: MAX_PICTURE_PIXELS,
      minSide: MIN_PICTURE_SIDE,
      maxAspect: MAX_PICTURE_ASPECT,
    },
    adaptable,
  };
}
