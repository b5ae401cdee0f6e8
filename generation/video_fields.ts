/** The rows of videos with sound: guidance of the picture and of the sound, stages, and images at frames of their own. */

import type { SamplingSettings } from "../engine/types.ts";
import {
  checkEach,
  FLAG,
  GUIDANCE,
  numbersWithin,
  numberWithin,
  type SettingField,
  unlessFromImages,
  unlessTaken,
} from "./field_values.ts";

type Video = Extract<
  keyof SamplingSettings,
  | `audio${string}`
  | `stg${string}`
  | `image${"Frames" | "Strengths"}`
  | "imageCrf"
  | "modalityScale"
  | "twoStages"
>;

/** Most of a constant rate factor. */
const MAX_CRF = 51;

export const VIDEO_FIELDS: {
  readonly [Name in Video]-?: SettingField<NonNullable<SamplingSettings[Name]>>;
} = {
  stgScale: {
    text:
      "Scale of spatio-temporal guidance (LTX-2.3; default: 1, and 0 where `guidance_scale` is at most 1); costs one more pass",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("stgScale"),
  },
  stgBlocks: {
    text: "Blocks that spatio-temporal guidance leaves without attention, from 0 (default: 28)",
    kind: "integers",
    http: ["stg_blocks", "spatio_temporal_guidance_blocks"],
    placeholder: "block...",
    check: (value, name) => {
      if (value.length > 0 && value.every((block) => Number.isSafeInteger(block) && block >= 0)) {
        return;
      }
      throw new RangeError(`${name} must be indices of blocks, from 0, got [${value}]`);
    },
    idle: unlessTaken("stgBlocks"),
  },
  modalityScale: {
    text:
      "Scale of guidance away from video and sound that do not see each other (LTX-2; default: 3, and 1, which does nothing, where `guidance_scale` is at most 1); costs one more pass",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("modalityScale"),
  },
  audioGuidanceScale: {
    text:
      "Guidance scale of the sound (LTX-2; default: 7, and `guidance_scale` where that is at most 1)",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("audioGuidanceScale"),
  },
  audioStgScale: {
    text: "`stg_scale` of the sound (default: `stg_scale`)",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("audioStgScale"),
  },
  audioModalityScale: {
    text: "`modality_scale` of the sound (default: `modality_scale`)",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("audioModalityScale"),
  },
  audioGuidanceRescale: {
    text: "`guidance_rescale` of the sound (default: `guidance_rescale`)",
    ...numberWithin(0, 1),
    placeholder: "share",
    idle: unlessTaken("audioGuidanceRescale"),
  },
  twoStages: {
    text:
      "Make the video smaller first, by the factor of the latent upsampler, and then refine it at its size in 3 steps (LTX-2, distilled or with a second transformer); sides are multiples of 64 where that is 2, of 96 where it is 1.5",
    ...FLAG,
    neutral: false,
    idle: unlessTaken("twoStages"),
  },
  imageFrames: {
    text:
      "Frames of the video that the images are for, from 0, one for each (LTX-2; default: the first one, and the others evenly spread)",
    kind: "integers",
    placeholder: "frame...",
    check: (values, name) =>
      checkEach(values, name, (value) => {
        if (Number.isSafeInteger(value) && value >= 0) return;
        throw new RangeError(`${name} must be frames of the video, from 0, got ${value}`);
      }),
    idle: unlessFromImages("imageFrames"),
  },
  imageCrf: {
    text:
      "Constant rate factor of H.264, 0 to 51, by which images are compressed first, as the model was trained (LTX-2; default: 33); 0 leaves them as they are",
    kind: "integer",
    placeholder: "factor",
    bounds: () => [0, MAX_CRF],
    check: (value, name) => {
      if (Number.isSafeInteger(value) && value >= 0 && value <= MAX_CRF) return;
      throw new RangeError(`${name} must be an integer from 0 to ${MAX_CRF}, got ${value}`);
    },
    idle: unlessFromImages("imageCrf"),
  },
  imageStrengths: {
    text:
      "How much the images count where they stand in the video, 0 to 1 (LTX-2; default: 1), or one strength for each",
    ...numbersWithin(0, 1),
    placeholder: "strength...",
    idle: unlessFromImages("imageStrengths"),
  },
};
