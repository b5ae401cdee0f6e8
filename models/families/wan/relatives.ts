/**
 * Models of other teams with Wan's transformer: SkyReels V2 and ChronoEdit.
 * Source: diffusers `SkyReelsV2Pipeline`, `SkyReelsV2ImageToVideoPipeline`, `SkyReelsV2DiffusionForcingPipeline`,
 * `SkyReelsV2DiffusionForcingImageToVideoPipeline` and `ChronoEditPipeline`.
 */
import type { PipelineDefaults } from "../../pipeline/types.ts";
import type { TokenGrid } from "./patches.ts";

/** The class of ChronoEdit's pipelines: an edit is the last frame of a short video that begins with the image. */
export const CHRONO_EDIT = "ChronoEditPipeline";

export const CHRONO_EDIT_TRANSFORMER = "ChronoEditTransformer3DModel";

export const SKY_REELS_TRANSFORMER = "SkyReelsV2Transformer3DModel";

/** Sizes that diffusers' class takes for those that a file leaves out, where they are not Wan's. */
const SKY_REELS_SIZES = { num_attention_heads: 16, ffn_dim: 8192, num_layers: 32 } as const;

/** Defaults of diffusers' pipelines. */
const SKY_REELS = {
  width: 960,
  height: 544,
  numFrames: 97,
  fps: 24,
  numInferenceSteps: 50,
} as const;

/** Classes for diffusion forcing: latent frames have timesteps of their own, here one, and 0 where a frame is given. */
const FORCED = "SkyReelsV2DiffusionForcingPipeline";
const FORCED_IMAGE = "SkyReelsV2DiffusionForcingImageToVideoPipeline";

export const RELATIVES: Readonly<Record<string, Partial<PipelineDefaults>>> = {
  SkyReelsV2Pipeline: { ...SKY_REELS, guidanceScale: 6 },
  SkyReelsV2ImageToVideoPipeline: { ...SKY_REELS, guidanceScale: 5 },
  [FORCED]: { ...SKY_REELS, guidanceScale: 6 },
  [FORCED_IMAGE]: { ...SKY_REELS, guidanceScale: 5 },
  [CHRONO_EDIT]: { numFrames: 1, fps: 1 },
};

export function isForced(className: string): boolean {
  return className === FORCED || className === FORCED_IMAGE;
}

/** The rates that a transformer learned to tell apart: 16 frames a second, and others. */
export function rateOf(
  { inject_sample_info: tellsRates }: { readonly inject_sample_info: boolean },
  fps: number | undefined,
): 0 | 1 | undefined {
  if (!tellsRates) return undefined;
  return fps === 16 ? 0 : 1;
}

/** A transformer's file with the sizes that its class has where Wan's has others. */
export function withSkyReelsSizes(json: unknown): unknown {
  const isSkyReels = typeof json === "object" && json !== null && "_class_name" in json &&
    json._class_name === SKY_REELS_TRANSFORMER;
  return isSkyReels ? { ...SKY_REELS_SIZES, ...json } : json;
}

/** Positions between the image and its edit, which lie as far apart as the ends of a longer video. */
export function framesApart(
  { rope_temporal_skip_len: length }: { readonly rope_temporal_skip_len: number },
  { frames }: TokenGrid,
): number {
  return frames === 2 ? length - 1 : 1;
}
