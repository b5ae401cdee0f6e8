/** What a family says of its models, and what it need not say. */
import type { PipelineDefaults, PipelineInfo } from "./types.ts";

/** What a family need not say of models that make images, each from one image at most. */
type ImageModelInfo = Pick<
  PipelineInfo,
  "taskDefaults" | "frameMultiple" | "maxFrames" | "maxEditImages" | "maxSequenceLength"
>;

/** Defaults that such a family need not name. */
type ImageModelDefaults = Pick<PipelineDefaults, "numFrames" | "fps" | "negativePrompt">;

/** What a family says of its models; see {@linkcode completeInfo}. */
export type FamilyInfo =
  & Omit<
    PipelineInfo,
    | "className"
    | "weightBytes"
    | "precisions"
    | "optionalParts"
    | "upscalerScale"
    | "defaults"
    | keyof ImageModelInfo
  >
  & Partial<ImageModelInfo>
  & {
    readonly defaults:
      & Omit<PipelineDefaults, keyof ImageModelDefaults>
      & Partial<ImageModelDefaults>;
  };

/** Tokens that prompts are cut to unless a request says otherwise, as in the reference's pipelines. */
export const USUAL_SEQUENCE_LENGTH = 512;

/** Fills in what holds for models of images: one frame, no task with defaults of its own, no negative prompt. */
export function completeInfo<Info extends FamilyInfo>(
  info: Info,
): Info & ImageModelInfo & Pick<PipelineInfo, "defaults"> {
  return {
    ...{ taskDefaults: {}, frameMultiple: 1, maxFrames: 1 },
    ...{ maxEditImages: info.maxImages, maxSequenceLength: USUAL_SEQUENCE_LENGTH },
    ...info,
    defaults: { numFrames: 1, fps: 1, negativePrompt: "", ...info.defaults },
  };
}
