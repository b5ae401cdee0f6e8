import type { ModelIndex } from "../../../hub/model_index.ts";
import type { PipelineDefaults, PipelineInfo } from "../../pipeline.ts";
import type { WanComponents } from "./components.ts";

/** Sizes and settings that checkpoints of a width were made for, largest first. */
const BY_DIM: readonly { readonly minDim: number; readonly defaults: PipelineDefaults }[] = [
  // Wan 2.1 14B
  { minDim: 5120, defaults: video(1280, 720, 81, 16, 50, 5) },
  // Wan 2.2 TI2V 5B
  { minDim: 3072, defaults: video(1280, 704, 121, 24, 50, 5) },
  // Wan 2.1 1.3B
  { minDim: 1536, defaults: video(832, 480, 81, 16, 50, 5) },
  // Small models that this project trains.
  { minDim: 0, defaults: video(96, 96, 1, 8, 20, 3.5) },
];

function video(
  width: number,
  height: number,
  numFrames: number,
  fps: number,
  numInferenceSteps: number,
  guidanceScale: number,
): PipelineDefaults {
  return { width, height, numFrames, fps, numInferenceSteps, guidanceScale, negativePrompt: "" };
}

/** What the pipeline says of itself. */
export function wanInfo(
  { pipeline, transformer, vae, textEncoder }: WanComponents,
  index: ModelIndex,
): PipelineInfo {
  const { num_attention_heads, attention_head_dim, patch_size } = transformer.config;
  const { defaults } = BY_DIM.find(({ minDim }) =>
    num_attention_heads * attention_head_dim >= minDim
  )!;
  const precision = (weights: typeof vae.weights) => weights.mainFormat.toLowerCase();
  return {
    className: index.className,
    supportedTasks: pipeline.expand_timesteps ? ["T2I", "T2V", "I2V"] : ["T2I", "T2V"],
    defaultTask: defaults.numFrames === 1 ? "T2I" : "T2V",
    precisions: {
      transformer: precision(transformer.weights),
      vae: precision(vae.weights),
      textEncoder: precision(textEncoder.weights),
    },
    defaults,
    sizeMultiple: vae.config.scale_factor_spatial * Math.max(patch_size[1], patch_size[2]),
  };
}
