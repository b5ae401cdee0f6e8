/** What a family says of its models, and what it need not say. */
import type {
  InputImage,
  PipelineDefaults,
  PipelineInfo,
  PipelineRequest,
  PlanRequest,
  TaskType,
} from "./types.ts";
import { INPUTS } from "./check_request.ts";

type ImageModelInfo = Pick<
  PipelineInfo,
  | "taskDefaults"
  | "frameMultiple"
  | "maxFrames"
  | "maxEditImages"
  | "maxSequenceLength"
  | "controlNets"
>;

type ImageModelDefaults = Pick<PipelineDefaults, "numFrames" | "fps" | "negativePrompt">;

export type FamilyInfo =
  & Omit<
    PipelineInfo,
    | "className"
    | "weightBytes"
    | "precisions"
    | "optionalParts"
    | "sampling"
    | "upscalerScale"
    | "upscaler"
    | "defaults"
    | keyof ImageModelInfo
  >
  & Partial<ImageModelInfo>
  & {
    /** Tokens that prompts are cut to where a request says nothing, if they are fewer than a request may have. */
    readonly usualSequenceLength?: number;
    readonly defaults:
      & Omit<PipelineDefaults, keyof ImageModelDefaults>
      & Partial<ImageModelDefaults>;
  };

/** Tokens that prompts are cut to unless a request says otherwise, as in the reference's pipelines. */
export const USUAL_SEQUENCE_LENGTH = 512;

/** Sides of an image by default, in latents. */
const DEFAULT_SIDE = 128;

export function usualSize(scale: number): { readonly width: number; readonly height: number } {
  return { width: DEFAULT_SIDE * scale, height: DEFAULT_SIDE * scale };
}

/** Fills in what holds for models of images: one frame, no task with defaults of its own, no negative prompt. */
export function completeInfo<Info extends FamilyInfo>(
  info: Info,
): Info & ImageModelInfo & Pick<PipelineInfo, "defaults"> {
  return {
    taskDefaults: {},
    frameMultiple: 1,
    maxFrames: 1,
    maxEditImages: info.maxImages,
    controlNets: [],
    maxSequenceLength: USUAL_SEQUENCE_LENGTH,
    ...info,
    defaults: { numFrames: 1, fps: 1, negativePrompt: "", ...info.defaults },
  };
}

/** What a request that says nothing asks for; a ControlNet and an IP-Adapter are there to be used. */
export function usualRequest(
  { defaults, taskDefaults, defaultTask, ...info }: PipelineInfo,
  task: TaskType = defaultTask,
): PipelineRequest {
  const { width, height } = defaults;
  const { referenceSide: side } = info;
  const control = info.controlsByMask
    ? task === "TI2I" && { mask: [new Uint8Array()], ...info.inpainting }
    : {
      control: new Array<InputImage>(Math.max(1, info.controlNets.length))
        .fill({ width, height, data: new Uint8Array() }),
    };
  return {
    ...defaults,
    ...taskDefaults[task],
    task,
    prompt: "",
    seed: 0,
    ...((info.controlNets.length > 0 || info.needsControl) && control),
    ...(side && {
      references: new Array<InputImage>(info.ipAdapters?.length ?? 1)
        .fill({ width: side, height: side, data: new Uint8Array() }),
    }),
  };
}

export function smallestRequest(info: PipelineInfo, task: TaskType): PipelineRequest {
  const { sizeMultiple, leastSide, frameMultiple } = info;
  const side = leastSide ?? sizeMultiple;
  const numFrames = task === "T2I" || task === "TI2I" ? 1 : 1 + frameMultiple;
  // Samplers may have a number of steps of their own.
  const { sampler: _, ...usual } = usualRequest(info, task);
  const request = { ...usual, width: side, height: side, numFrames };
  return withInputs({ ...request, guidanceScale: 0, numInferenceSteps: 2 }, info);
}

/** A size that all scales of two stages divide: 1.5, 2 and 4. */
const STAGED_SIZE = 6;

const SILENCE = new Float32Array();

/** A small one that uses all weights of a model. */
export function declaringRequest(info: PipelineInfo, task: TaskType): PipelineRequest {
  const { takesAudio } = info;
  const request = {
    ...smallestRequest(info, task),
    // A sound that is given is encoded, and none is decoded.
    ...(takesAudio && INPUTS[task] === "video" && {
      audio: {
        ...takesAudio,
        channels: new Array<Float32Array>(takesAudio.channels).fill(SILENCE),
      },
    }),
  };
  const { width, height } = request;
  if (!info.optionalSettings.includes("twoStages")) return request;
  return {
    ...request,
    twoStages: true,
    width: STAGED_SIZE * width,
    height: STAGED_SIZE * height,
  };
}

export function plannedRequest(
  info: PipelineInfo,
  { promptTokens: _, previews: __, control, ...size }: PlanRequest,
): PipelineRequest {
  const isVideo = size.task === undefined && (size.numFrames ?? 1) > 1;
  const task = size.task ??
    (isVideo && info.supportedTasks.includes("T2V") ? "T2V" : info.defaultTask);
  const { control: usual, mask: usualMask, ...others } = usualRequest(info, task);
  const mask = size.mask ?? (control === undefined ? usualMask : undefined);
  const steered = { control: control ?? usual ?? [], ...(mask && { mask }) };
  return withInputs({ ...others, ...size, task, ...steered }, info);
}

function withInputs(
  request: PipelineRequest,
  { minImages = 1, animates }: PipelineInfo,
): PipelineRequest {
  const { task, width, height } = request;
  const data = new Uint8Array();
  const images = new Array<InputImage>(minImages).fill({ width, height, data });
  return {
    ...request,
    ...((INPUTS[task] === "image" || animates) && { images: request.images ?? images }),
    ...(INPUTS[task] === "video" && { video: [data] }),
  };
}
