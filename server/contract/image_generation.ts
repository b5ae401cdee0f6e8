/**
 * From the body of an image generation to what has to be done, with every mistake found before any
 * work begins.
 *
 * @module
 */

import type { ModelInfo, TaskType } from "../../engine/types.ts";
import type { OutputFormat } from "../../media/encode.ts";
import { resolveQuality } from "../../media/quality.ts";
import { badRequest } from "./errors.ts";
import { flattenExtras, ignoredFields, refuseField } from "./fields.ts";
import {
  imageFieldTable,
  type ImageGenerationBody,
  imageGenerationSchema,
  PATH_FIELDS,
} from "./image_fields.ts";
import { checkGuidance, checkPrompt, checkSteps, resolveSeeds } from "./sampling.ts";
import { checkSize, parseSize, type Size } from "./size.ts";
import { resolveTask } from "./task.ts";
import { validate } from "./validate.ts";

/** How the results of an image request come back. */
export type ResponseFormat = "url" | "b64_json";

/** One checked image request. */
export interface ImageRequest {
  /** As sent. */
  prompt: string;
  /** As sent, else the model's default. */
  negativePrompt: string;
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** One seed for each picture. */
  seeds: number[];
  /** Denoising steps. */
  numInferenceSteps: number;
  /** Weight of classifier-free guidance. */
  guidanceScale: number;
  /** The task that was asked for or follows from the request. */
  taskType: TaskType;
  /** Links or the files themselves. */
  responseFormat: ResponseFormat;
  /** Format of the files. */
  format: OutputFormat;
  /** 0 (small) to 100 (best). */
  outputQuality: number;
  /** Whether the prompt is rewritten first. */
  enhancePrompt: boolean;
  /** Whether the answer is a stream of events. */
  stream: boolean;
  /** Fields of the body that had no effect. */
  ignored: string[];
}

/** What a request is checked against. */
export interface ImageContext {
  /** The loaded model. */
  readonly info: ModelInfo;
  /** The model's public name. */
  readonly servedModelName: string;
  /** Whether a field without effect is an error. */
  readonly strictFields: boolean;
  /** Whether prompts can be rewritten. */
  readonly canEnhance: boolean;
  /** Whether results are kept, so that a link can lead to them. */
  readonly persistent: boolean;
}

const MAX_OUTPUTS = 10;
const QUALITIES = ["auto", "exact", "lossless", "high", "extra-high"];
const BACKGROUNDS = ["auto", "transparent", "opaque"];
const DEVICES = ["cuda", "cpu", "musa"];
const FORMATS: Readonly<Record<string, OutputFormat>> = {
  png: "png",
  jpeg: "jpeg",
  jpg: "jpeg",
  webp: "webp",
};
const RESPONSE_FORMATS: readonly string[] = ["url", "b64_json"];

/**
 * Reads the body of an image generation.
 *
 * @param json any parsed JSON value
 * @param context the model and the server's settings
 * @returns what has to be done
 * @throws {ApiError} 422 for wrong types, 400 for wrong values
 */
export function readImageRequest(json: unknown, context: ImageContext): ImageRequest {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const body = isObject ? flattenExtras(json as Record<string, unknown>) : json;
  const fields = validate(imageGenerationSchema, body);
  refusePaths(fields);
  const ignored = findIgnored(fields, context);

  const { info } = context;
  asClientError("prompt", () => checkPrompt("prompt", fields.prompt));
  const negativePrompt = fields.negative_prompt ?? info.defaults.negativePrompt;
  asClientError("negative_prompt", () => checkPrompt("negative_prompt", negativePrompt, true));
  const numInferenceSteps = fields.num_inference_steps ?? info.defaults.numInferenceSteps;
  asClientError("num_inference_steps", () => checkSteps(numInferenceSteps, info.maxSteps));
  const guidanceScale = fields.guidance_scale ?? info.defaults.guidanceScale;
  asClientError("guidance_scale", () => checkGuidance("guidance_scale", guidanceScale));
  if (typeof fields.true_cfg_scale === "number") {
    const scale = fields.true_cfg_scale;
    asClientError("true_cfg_scale", () => checkGuidance("true_cfg_scale", scale));
  }
  checkChoice("quality", fields.quality, QUALITIES);
  checkChoice("generator_device", fields.generator_device, DEVICES);
  const taskType = asClientError("task_type", () =>
    resolveTask({
      ...(fields.task_type ? { taskType: fields.task_type } : {}),
      output: "IMAGE",
      hasImage: false,
      hasVideo: false,
    }, info));
  if (fields.enhance_prompt === true && !context.canEnhance) {
    throw badRequest("Prompt enhancement requires --prompt-enhancer-config", "enhance_prompt");
  }
  return {
    prompt: fields.prompt,
    negativePrompt,
    ...readSize(fields, info),
    seeds: readSeeds(fields),
    numInferenceSteps,
    guidanceScale,
    taskType,
    responseFormat: readResponseFormat(fields.response_format, context.persistent),
    format: readFormat(fields),
    outputQuality: asClientError(
      "output_compression",
      () => resolveQuality(fields.output_quality, fields.output_compression, "image"),
    ),
    enhancePrompt: fields.enhance_prompt === true,
    stream: fields.stream === true,
    ignored,
  };
}

function refusePaths(fields: Readonly<Record<string, unknown>>): void {
  for (const name of PATH_FIELDS) {
    if (fields[name] === undefined || fields[name] === null) continue;
    throw badRequest(`Cannot use ${name}: clients may not name paths on the server`, name);
  }
}

function findIgnored(fields: ImageGenerationBody, context: ImageContext): string[] {
  const ignored = ignoredFields(fields, imageFieldTable);
  if (fields.model && fields.model !== context.servedModelName) ignored.push("model");
  // The initial noise is that of PyTorch's CPU generator, whatever the device.
  if (fields.generator_device && fields.generator_device !== "cpu") {
    ignored.push("generator_device");
  }
  const [first] = ignored;
  if (context.strictFields && first !== undefined) refuseField(first, imageFieldTable);
  return ignored;
}

function readSize(fields: ImageGenerationBody, info: ModelInfo): Size {
  const size = asClientError("size", () => {
    const named = fields.size === undefined || fields.size === null || fields.size === "auto"
      ? info.defaults
      : parseSize(fields.size);
    return { width: fields.width ?? named.width, height: fields.height ?? named.height };
  });
  const param = fields.width ? "width" : fields.height ? "height" : "size";
  asClientError(param, () => checkSize(size, info));
  return size;
}

function readSeeds(fields: ImageGenerationBody): number[] {
  const n = fields.n ?? 1;
  if (n < 1 || n > MAX_OUTPUTS) {
    throw badRequest(`n must be between 1 and ${MAX_OUTPUTS}, got ${n}`, "n");
  }
  return asClientError("seed", () => resolveSeeds(fields.seed, n));
}

function readResponseFormat(
  value: string | null | undefined,
  persistent: boolean,
): ResponseFormat {
  if (value === null) return "b64_json";
  const format = value ?? (persistent ? "url" : "b64_json");
  if (!RESPONSE_FORMATS.includes(format)) {
    throw badRequest(`response_format=${shorten(format)} is not supported`, "response_format");
  }
  if (format === "url" && !persistent) {
    throw badRequest(
      "response_format='url' requires cloud storage to be configured.",
      "response_format",
    );
  }
  return format as ResponseFormat;
}

function readFormat(fields: ImageGenerationBody): OutputFormat {
  checkChoice("background", fields.background, BACKGROUNDS);
  checkChoice("output_format", fields.output_format, Object.keys(FORMATS));
  const transparent = fields.background === "transparent";
  if (!fields.output_format) return transparent ? "png" : "jpeg";
  const format = FORMATS[fields.output_format]!;
  if (transparent && format === "jpeg") {
    throw badRequest(
      "Cannot write a transparent background as JPEG: use output_format png or webp",
      "output_format",
    );
  }
  return format;
}

function checkChoice(
  name: string,
  value: string | null | undefined,
  choices: readonly string[],
): void {
  if (value === undefined || value === null || choices.includes(value)) return;
  const list = choices.map((choice) => `'${choice}'`).join(", ");
  throw badRequest(`${name} must be one of [${list}], got '${shorten(value)}'`, name);
}

function shorten(value: string): string {
  return value.length > 60 ? `${value.slice(0, 60)}…` : value;
}

/** Runs a check and turns its refusal into a 400 that names the field. */
function asClientError<T>(param: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof RangeError) throw badRequest(error.message, param);
    throw error;
  }
}
