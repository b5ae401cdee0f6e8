/** What every family checks of a request. */
import { missingEncoder } from "../autoencoders/require_encoder.ts";
import { checkControl } from "./control_units.ts";
import { isInpainting } from "./inpainting.ts";
import { checkReferences } from "./references.ts";
import { OPTIONAL_SETTINGS } from "./settings.ts";
import type { InputImage, PipelineInfo, PipelineRequest, TaskType } from "./types.ts";
import { SettingError } from "../setting_error.ts";

/** What a task starts from beside text. */
export const INPUTS: Readonly<Partial<Record<TaskType, "text" | "image" | "video">>> = {
  T2I: "text",
  T2V: "text",
  I2V: "image",
  TI2I: "image",
  V2V: "video",
  F2V: "video",
};

/** Most images that a request for a task may bring where the task starts from images. */
export function mostImages(
  task: TaskType,
  { maxImages, maxEditImages }: Pick<PipelineInfo, "maxImages" | "maxEditImages">,
): number {
  return task === "TI2I" ? maxEditImages : maxImages;
}

/** Checks task, size, frames, steps and guidance; errors name the value and what the model takes. */
export function checkSettings(request: PipelineRequest, info: PipelineInfo): void {
  const { task, width, height, numFrames, numInferenceSteps, guidanceScale } = request;
  const { sizeMultiple, leastSide = sizeMultiple, supportedTasks, lacksEncoder, maxFrames } = info;
  if (lacksEncoder && INPUTS[task] !== "text") {
    throw missingEncoder(`do ${task}`);
  }
  if (!supportedTasks.includes(task)) {
    throw new RangeError(
      `Cannot do ${task}: this model does ${supportedTasks.join(", ")}; choose one of them`,
    );
  }
  for (const [name, value] of Object.entries({ width, height })) {
    if (!Number.isInteger(value) || value < leastSide || value % sizeMultiple !== 0) {
      const nearest = Math.max(leastSide, Math.round(value / sizeMultiple) * sizeMultiple);
      throw new RangeError(
        `Cannot make ${width}x${height}: the ${name} must be a multiple of ${sizeMultiple}, for example ${nearest}`,
      );
    }
  }
  if (!Number.isInteger(numFrames) || numFrames < 1) {
    throw new SettingError("numFrames", `Cannot make ${numFrames} frames: at least 1 is needed`);
  }
  if (numFrames > maxFrames) {
    throw new SettingError(
      "numFrames",
      `Cannot make ${numFrames} frames: the model has positions for ${maxFrames}; ask for fewer`,
    );
  }
  if (!Number.isInteger(numInferenceSteps) || numInferenceSteps < 1) {
    throw new SettingError(
      "numInferenceSteps",
      `Cannot denoise in ${numInferenceSteps} steps: at least 1 is needed`,
    );
  }
  if (!Number.isFinite(guidanceScale)) {
    throw new SettingError(
      "guidanceScale",
      `Cannot guide with a scale of ${guidanceScale}: it must be a finite number`,
    );
  }
  if (request.decoder === "tiny" && !info.optionalParts.includes("tinyDecoder")) {
    throw new SettingError(
      "decoder",
      "Cannot decode with a tiny decoder: the model has none; name its file with --tiny-decoder, or omit decoder",
    );
  }
  if (request.enableUpscaling && !info.optionalParts.includes("upscaler")) {
    throw new SettingError(
      "enableUpscaling",
      "Cannot upscale: the model has no upscaler; name its file with --upscaler, or leave enableUpscaling out",
    );
  }
  if (request.enableFrameInterpolation && !info.optionalParts.includes("frameInterpolator")) {
    throw new SettingError(
      "enableFrameInterpolation",
      "Cannot interpolate frames: the model has no frame interpolator; name its file with --frame-interpolator, " +
        "or leave enableFrameInterpolation out",
    );
  }
  checkOptional(request, info);
  checkLayers(request, info);
}

function checkLayers({ layers = 1, enableUpscaling }: PipelineRequest, info: PipelineInfo): void {
  const { most } = info.layers ?? { most: 1 };
  if (!Number.isSafeInteger(layers) || layers < 1 || layers > most) {
    throw new SettingError(
      "layers",
      `Cannot split an image into ${layers} layers: it can be 1 to ${most}`,
    );
  }
  if (!info.layers || !enableUpscaling) return;
  throw new SettingError(
    "enableUpscaling",
    "Cannot upscale layers: upscalers know no alpha; leave enableUpscaling out",
  );
}

function checkOptional(
  request: PipelineRequest,
  { optionalSettings, maxSequenceLength }: PipelineInfo,
): void {
  for (const name of OPTIONAL_SETTINGS) {
    if (request[name] === undefined || optionalSettings.includes(name)) continue;
    throw new SettingError(name, `Cannot use ${name}: this model has no such setting; omit it`);
  }
  const { maxSequenceLength: tokens = 1 } = request;
  if (Number.isSafeInteger(tokens) && tokens >= 1 && tokens <= maxSequenceLength) return;
  throw new SettingError(
    "maxSequenceLength",
    `Cannot cut prompts to ${tokens} tokens: maxSequenceLength must be from 1 to ${maxSequenceLength}`,
  );
}

/** Checks input images, the input video, masks, control and strength. */
export function checkInputs(request: PipelineRequest, info: PipelineInfo): void {
  const { task, video, strength } = request;
  checkImages(request, info);
  const needsVideo = INPUTS[task] === "video";
  if (needsVideo && !video?.length) {
    throw new RangeError(
      `Cannot do ${task} without an input video: give one with at least 1 frame`,
    );
  }
  if (!needsVideo && video) {
    throw new RangeError(`Cannot do ${task} with an input video: omit it`);
  }
  for (const frame of video ?? []) checkBytes(frame, request);
  checkMask(request, info);
  checkAudio(request, info);
  checkControl(request, info);
  checkReferences(request, info);
  const hasStrength = info.taskDefaults[task]?.strength !== undefined || isInpainting(request);
  if ((strength !== undefined) !== hasStrength) {
    throw new RangeError(
      `Cannot do ${task} ${hasStrength ? "without" : "with"} a strength: ` +
        (hasStrength ? "give one above 0, up to 1" : "omit it"),
    );
  }
}

/** Whether the frames of the video that V2V starts from are redrawn, by a strength. */
export function isRedrawn(
  { takesMasks, animates, controlsByVideo }: Pick<
    PipelineInfo,
    "takesMasks" | "animates" | "controlsByVideo"
  >,
): boolean {
  return !takesMasks && !animates && !controlsByVideo;
}

function checkAudio({ audio }: PipelineRequest, { takesAudio }: PipelineInfo): void {
  if (!audio) return;
  if (!takesAudio) throw new RangeError("Cannot follow a sound: this model takes none; omit it");
  const { sampleRate, channels } = takesAudio;
  if (audio.sampleRate === sampleRate && audio.channels.length === channels) return;
  throw new RangeError(
    `Cannot follow a sound of ${audio.channels.length} channels at ${audio.sampleRate} Hz: the model takes ${channels} at ${sampleRate} Hz; convert it first`,
  );
}

function checkMask(
  { task, mask, width, height }: PipelineRequest,
  info: PipelineInfo,
): void {
  if (!mask) return;
  const most = task === "V2V" && info.takesMasks
    ? Infinity
    : task === "TI2I" && info.inpainting
    ? 1
    : 0;
  if (mask.length < 1 || mask.length > most) {
    throw new RangeError(`Cannot do ${task} with ${mask.length} masks: omit them`);
  }
  const wrong = mask.find(({ length }) => length !== width * height);
  if (!wrong) return;
  throw new RangeError(
    `Cannot use a mask of ${wrong.length} bytes: ${width}x${height} has ${width * height} pixels`,
  );
}

function checkImages(
  { task, width, height, images = [], mask }: PipelineRequest,
  info: PipelineInfo,
): void {
  const { minImages = 1, imageLimits, visionSide, animates } = info;
  const most = INPUTS[task] === "image" || animates ? mostImages(task, info) : 0;
  const least = Math.min(minImages, most);
  if (images.length > most || images.length < least) {
    const range = most === 0
      ? "none"
      : most === 1
      ? "one"
      : least === most
      ? `${most}`
      : `${least} to ${most}`;
    throw new RangeError(
      `Cannot do ${task} with ${images.length} input image${
        images.length === 1 ? "" : "s"
      }: it takes ${range}`,
    );
  }
  for (const [i, image] of images.entries()) {
    if (!image.latents) checkBytes(image.data, image);
    else if (!info.startsFromLatents) {
      throw new RangeError(
        `Cannot do ${task} from latents: this model starts from pixels; decode them`,
      );
    }
    checkAlpha(image);
    if (visionSide) checkVision(image, visionSide);
    // What a mask keeps a part of has the size of the result.
    if (!imageLimits || mask && i === 0) {
      if (image.width === width && image.height === height) continue;
      throw new RangeError(
        `Cannot start from an image of ${image.width}x${image.height}: the result has ${width}x${height}; scale it first`,
      );
    }
    const { multiple, alone } = imageLimits;
    const { maxPixels } = images.length === 1 && alone ? alone : imageLimits;
    const isWhole = [image.width, image.height].every((side) =>
      side >= multiple && side % multiple === 0
    );
    if (isWhole && image.width * image.height <= maxPixels) continue;
    throw new RangeError(
      `Cannot start from an image of ${image.width}x${image.height}: its sides must be multiples of ${multiple}, ` +
        `and it may have ${maxPixels} pixels; scale and crop it first`,
    );
  }
}

function checkVision({ vision }: InputImage, side: number): void {
  if (vision?.length === side * side * 3) return;
  throw new RangeError(
    `Cannot show an image to the image encoder: it needs ${side}x${side} pixels in RGB beside the image, and gets ${
      vision ? `${vision.length} bytes` : "none"
    }`,
  );
}

function checkAlpha({ alpha, width, height }: InputImage): void {
  if (!alpha || alpha.length === width * height) return;
  throw new RangeError(
    `Cannot start from ${alpha.length} bytes of alpha: ${width}x${height} has ${
      width * height
    } pixels`,
  );
}

function checkBytes(
  { length }: Uint8Array,
  { width, height }: Pick<InputImage, "width" | "height">,
): void {
  const bytes = width * height * 3;
  if (length === bytes) return;
  throw new RangeError(
    `Cannot start from ${length} bytes of pixels: ${width}x${height} in RGB has ${bytes}`,
  );
}
