import { mostImages, type PipelineRequest } from "../models/mod.ts";
import type { GenerateRequest, Image, ModelInfo, TaskType } from "./types.ts";

export const IMAGE_TASKS: readonly TaskType[] = ["T2I", "TI2I"];

/**
 * What the model's pipeline is asked for: the task that follows from the inputs, where the request leaves it open, and
 * the model's own settings for that task.
 */
export function toPipelineRequest(request: GenerateRequest, info: ModelInfo): PipelineRequest {
  const { taskType, loras: _loras, strength: asked, ...others } = request;
  const { images = [], video = [], mask = [], references = [], ...settings } = others;
  const { width, height } = settings;
  const { defaults } = info;
  const task = taskType ?? inferTask(request, info);
  if (!info.supportedTasks.includes(task)) {
    throw new RangeError(
      `Cannot do ${task}: this model does ${info.supportedTasks.join(", ")}; choose one of them`,
    );
  }
  const most = mostImages(task, info);
  if (images.length > most) {
    throw new RangeError(
      `Cannot use ${images.length} images: this model takes ${most} at a time`,
    );
  }
  const isInpainting = task === "TI2I" && mask.length > 0 && info.inpainting !== undefined;
  const own = {
    ...defaults,
    strength: 1,
    ...info.taskDefaults[task],
    ...(isInpainting && info.inpainting),
  };
  const isImage = IMAGE_TASKS.includes(task);
  const numFrames = request.numFrames ??
    (isImage ? 1 : task === "V2V" ? video.length : own.numFrames);
  if (isImage && numFrames !== 1) {
    throw new RangeError(
      `Cannot do ${task} with ${numFrames} frames: an image has 1; leave numFrames out, or choose a task that makes a video`,
    );
  }
  const strength = asked ?? own.strength;
  if (!(strength > 0 && strength <= 1)) {
    throw new RangeError(`Cannot use strength ${strength}: it must be above 0 and at most 1`);
  }
  const pixels = (image: Image) => pixelsOf(image, width, height);
  if (!info.imageLimits) images.forEach(pixels);
  return {
    ...settings,
    task,
    numFrames,
    negativePrompt: settings.negativePrompt ?? defaults.negativePrompt,
    ...(images.length === 0 ? {} : { images }),
    ...(video.length === 0 ? {} : { video: video.map(pixels) }),
    ...(mask.length === 0 ? {} : { mask: mask.map((image) => firstChannel(pixels(image))) }),
    ...(references.length === 0 ? {} : { references }),
    ...(task === "V2V" && !info.takesMasks && !info.animates || isInpainting ||
        info.taskDefaults[task]?.strength !== undefined
      ? { strength }
      : {}),
  };
}

/** A video is changed, an image is changed or goes on as a video, and without either the text is all there is. */
function inferTask(
  { images = [], video = [], numFrames }: GenerateRequest,
  { defaults, supportedTasks }: ModelInfo,
): TaskType {
  if (video.length > 0) return "V2V";
  const isImage = (numFrames ?? defaults.numFrames) === 1;
  if (images.length === 0) return isImage ? "T2I" : "T2V";
  return isImage && supportedTasks.includes("TI2I") ? "TI2I" : "I2V";
}

function firstChannel(rgb: Uint8Array): Uint8Array {
  return Uint8Array.from({ length: rgb.length / 3 }, (_, i) => rgb[3 * i]!);
}

function pixelsOf(image: Image, width: number, height: number): Uint8Array {
  if (image.width !== width || image.height !== height) {
    throw new RangeError(
      `Cannot start from an image of ${image.width}x${image.height}: the result has ${width}x${height}; scale it first`,
    );
  }
  return image.data;
}
