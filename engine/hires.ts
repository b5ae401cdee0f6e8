/** The two passes of a hires fix: what the first makes is enlarged, and denoised again by a strength. */
import type { HiresSettings, HiresUpscaler } from "../models/pipeline/settings.ts";
import { OWN_SIGMAS } from "../models/schedulers/names.ts";
import type { ModelInfo, SamplingSettings, Size, TaskType } from "./types.ts";

/** Denoising strength of the second pass by default. */
const DEFAULT_STRENGTH = 0.7;

type TwoPasses =
  & Size
  & HiresSettings
  & Pick<SamplingSettings, "numInferenceSteps" | "sampler" | "enableUpscaling">
  & Partial<Pick<SamplingSettings, "scheduler" | "sigmas" | "strength">>
  & { prompt?: string; negativePrompt?: string; taskType?: TaskType };

/** The size after a hires fix, in whole multiples of the model's; nothing where there is none. */
export function hiresSize(
  { width, height, hiresScale, hiresWidth, hiresHeight }: Size & HiresSettings,
  { sizeMultiple: step }: Pick<ModelInfo, "sizeMultiple">,
): Size | undefined {
  const scale = hiresWidth ? hiresWidth / width : hiresHeight ? hiresHeight / height : hiresScale;
  if (!scale || scale === 1) return undefined;
  const whole = (side: number) => Math.max(step, Math.round(side / step) * step);
  return {
    width: whole(hiresWidth ?? width * scale),
    height: whole(hiresHeight ?? height * scale),
  };
}

/** Whether a model can denoise what it has made again, by a strength. */
export function takesHires(
  { supportedTasks, taskDefaults, inpainting }: Pick<
    ModelInfo,
    "supportedTasks" | "taskDefaults" | "inpainting"
  >,
): boolean {
  return supportedTasks.includes("T2I") && supportedTasks.includes("TI2I") &&
    (taskDefaults.TI2I?.strength ?? inpainting?.strength) !== undefined;
}

/** What enlarges the image of a request. */
export function hiresUpscaler(
  { hiresUpscaler }: HiresSettings,
  { startsFromLatents }: Pick<ModelInfo, "startsFromLatents">,
): HiresUpscaler {
  return hiresUpscaler ?? (startsFromLatents ? "latent" : "lanczos");
}

/** The request of the first pass; a network that enlarges its image belongs to it. */
export function firstPass<Request extends TwoPasses>(request: Request): Request {
  const { enableUpscaling: _, ...first } = withoutHires(request);
  const isUpscaled = request.hiresUpscaler === "model";
  return { ...first, ...(isUpscaled && { enableUpscaling: true }) } as Request;
}

/** The request of the second pass, without its image. */
export function secondPass<Request extends TwoPasses>(
  request: Request,
  info: Pick<ModelInfo, "sizeMultiple" | "sampling">,
): Request & { taskType: "TI2I"; strength: number } {
  const { hiresStrength: strength = DEFAULT_STRENGTH, hiresSampler, hiresScheduler } = request;
  // Of few steps that are always the same none can be omitted.
  const sampler = hiresSampler ?? (request.sampler === "dmd" ? "lcm" : request.sampler);
  const { hiresPrompt, hiresNegativePrompt, hiresSteps = request.numInferenceSteps } = request;
  // Sigmas have the number of the first pass's steps.
  const { sigmas: _, scheduler, ...plain } = withoutHires(request);
  const spacing = hiresScheduler ??
    (hiresSampler && OWN_SIGMAS.has(hiresSampler) ? undefined : scheduler);
  // The strength then leaves as many steps as the request asks for; flow models round down what it drops.
  const steps = Number((hiresSteps / strength).toFixed(6));
  const numInferenceSteps = info.sampling.maxSigma > 1 ? Math.ceil(steps) : Math.floor(steps);
  return {
    ...plain,
    ...hiresSize(request, info),
    ...(hiresPrompt !== undefined && { prompt: hiresPrompt }),
    ...(hiresNegativePrompt !== undefined && { negativePrompt: hiresNegativePrompt }),
    ...(sampler && { sampler }),
    ...(spacing && { scheduler: spacing }),
    taskType: "TI2I",
    strength,
    numInferenceSteps,
  } as Request & { taskType: "TI2I"; strength: number };
}

function withoutHires<Request extends TwoPasses>(request: Request): Request {
  return Object.fromEntries(
    Object.entries(request).filter(([name]) => !name.startsWith("hires")),
  ) as Request;
}

/** A model whose images have no strength of their own redraws all of one by a mask. */
export function redrawsByMask({ taskDefaults }: Pick<ModelInfo, "taskDefaults">): boolean {
  return taskDefaults.TI2I?.strength === undefined;
}
