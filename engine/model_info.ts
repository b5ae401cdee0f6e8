/** What an engine says of its model: what the pipeline says of itself, within what the engine allows. */
import { mostImages, type PipelineInfo } from "../models/mod.ts";
import { loraTargets } from "./lora_uses.ts";
import type { ModelInfo } from "./types.ts";

/** Most denoising steps that a request may ask for. */
const MAX_STEPS = 1000;

/** Most frames of a video: a given one is held in memory as pixels, 0.7 GB at 1280x720. */
const MAX_FRAMES = 257;

/** What only some models say of themselves. */
const OPTIONAL_INFO = [
  "minImages",
  "maxReferences",
  "takesMasks",
  "animates",
  "inpainting",
  "layers",
  "controlModes",
  "controlsByMask",
  "visionSide",
  "continuedFrames",
] as const;

/** Describes a model. */
export function modelInfo(modelPath: string, info: PipelineInfo, maxPixels: number): ModelInfo {
  return {
    modelPath,
    pipelineName: info.className.replace(/Pipeline$/, ""),
    pipelineClass: info.className,
    taskType: info.defaultTask,
    supportedTaskTypes: info.supportedTasks,
    ditPrecision: info.precisions.transformer,
    vaePrecision: info.precisions.vae,
    textEncoderPrecision: info.precisions.textEncoder,
    defaults: info.defaults,
    taskDefaults: info.taskDefaults,
    sizeMultiple: info.sizeMultiple,
    ...(info.nativeSides ? { nativeSides: info.nativeSides } : {}),
    ...(info.animates ? { sizeIsBudget: true } : {}),
    frameMultiple: info.frameMultiple,
    maxFrames: info.animates ? info.maxFrames : Math.min(info.maxFrames, MAX_FRAMES),
    maxImages: info.maxImages,
    maxEditImages: mostImages("TI2I", info),
    ...Object.fromEntries(
      OPTIONAL_INFO.flatMap((name) => (info[name] === undefined ? [] : [[name, info[name]]])),
    ),
    ...(info.imageLimits ? { imageLimits: info.imageLimits } : {}),
    maxPixels,
    maxSteps: MAX_STEPS,
    optionalSettings: info.optionalSettings,
    maxSequenceLength: info.maxSequenceLength,
    optionalParts: info.optionalParts,
    loraTargets: loraTargets(info.adaptable),
    weightBytes: info.weightBytes,
  };
}
