/**
 * From the body of an image generation to what has to be done, with every mistake found before any
 * work begins.
 */

import { shorten } from "../../generation/shorten.ts";
import { asClientError, checkChoice, refusePaths } from "../contract/checks.ts";
import { badRequest } from "../contract/errors.ts";
import {
  checkMode,
  type ControlSources,
  openControl,
  storeControl,
} from "../inputs/control_picture.ts";
import { controlSize } from "../../generation/control.ts";
import type { OutputFormat } from "../../media/encode.ts";
import { flattenExtras } from "../contract/fields.ts";
import { EDIT_SPELLINGS } from "../contract/spellings.ts";
import {
  findIgnored,
  type GenerationSettings,
  readFit,
  readGeneration,
  readOutputQuality,
  readSize,
  type RequestContext,
} from "../contract/generation.ts";
import { PATH_FIELDS } from "../contract/generation_fields.ts";
import { imageFieldTable, imageGenerationSchema } from "../contract/image_fields.ts";
import { readScalars } from "../contract/scalars.ts";
import { checkSize } from "../../generation/size.ts";
import { resolveTask } from "../../generation/task.ts";
import { validate } from "../contract/validate.ts";

/** How the results of an image request come back; `both` where it does not say. */
type ResponseFormat = "url" | "b64_json" | "both";

/** One checked image request. */
export interface ImageRequest extends GenerationSettings {
  /** The public name of the model; the first of the server when left out. */
  model?: string;
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** Links, or the files themselves. */
  responseFormat: ResponseFormat;
  /** Format of the files. */
  format: OutputFormat;
  /** 0 (small) to 100 (best). */
  outputQuality: number;
  /** Whether the answer is a stream of events. */
  stream: boolean;
  /** How often a stream, or the job's events, show each unfinished image. */
  previews: number;
  /** Images to edit, of the sizes in which the model takes them: paths of PNG files. */
  images: string[];
  /** Which part of the first image is painted anew, which has the size of the result then: the path of a PNG file. */
  mask?: string;
  /** What a ControlNet steers the result by, of its size: the path of a PNG file. */
  control?: string;
  /** Fields of the body that had no effect. */
  ignored: string[];
}

/** What `background` may say. */
export const BACKGROUNDS: readonly string[] = ["auto", "transparent", "opaque"];
/** Formats by the names that requests have for them. */
export const FORMATS: Readonly<Record<string, OutputFormat>> = {
  png: "png",
  jpeg: "jpeg",
  jpg: "jpeg",
  webp: "webp",
};
/** Models of the generic API that answer with files alone; their clients take a link to be a whole address. */
const GPT_IMAGE = /^(?:chat)?gpt-image-/i;
/** Most previews of an image, as in the generic API. */
export const MAX_PREVIEWS = 3;

/**
 * Reads the body of an image generation.
 *
 * @throws {ApiError} 422 for wrong types, 400 for wrong values
 */
export async function readImageRequest(
  json: unknown,
  context: RequestContext,
  sources: ControlSources,
): Promise<ImageRequest> {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const body = isObject
    ? flattenExtras(json as Record<string, unknown>, { control: EDIT_SPELLINGS["control"]! })
    : json;
  const fields = validate(imageGenerationSchema, readScalars(body, imageGenerationSchema));
  refusePaths(fields, PATH_FIELDS);
  const taskType = asClientError("task_type", () =>
    resolveTask({
      ...(fields.task_type ? { taskType: fields.task_type } : {}),
      output: "IMAGE",
      hasImage: false,
      hasVideo: false,
      howToSend: { image: "'image' or 'url' to /v1/images/edits" },
    }, context.info));
  const { info } = context;
  const fit = readFit(fields.fit);
  const control = await openControl(fields.control, [], info, sources);
  const size = readSize(fields, control ? controlSize(control.info, info) : info.defaults);
  const param = fields.width ? "width" : fields.height ? "height" : "size";
  asClientError(param, () => checkSize(size, context.info));
  const { settings, idle } = readGeneration(fields, taskType, context);
  const output = readImageOutput(fields, context);
  const ignored = findIgnored(fields, imageFieldTable, context, {
    ...idleOutputFields(fields, output, info),
    ...idle,
    fit: !control,
  });
  const loras = await context.findLoras(fields.loras);
  const { previews } = output;
  if (control) checkMode(settings, info);
  await context.checkRoom(
    { ...settings, ...size, hasControl: control !== undefined, previews },
    param,
  );
  const { servedModelName: model } = context;
  return {
    ...{ ...settings, ...size, ...output, model, loras, images: [], ignored },
    ...(control && { control: await storeControl(control, size, fit, sources) }),
  };
}

/**
 * The seed of each result.
 *
 * @returns one for each image, or for each layer
 */
export function outputSeeds(
  { seeds, layers = 1 }: Pick<ImageRequest, "seeds" | "layers">,
): number[] {
  return seeds.flatMap((seed) => new Array<number>(layers).fill(seed));
}

/** What an image request says of its results. */
type ImageOutputSettings = Pick<
  ImageRequest,
  "responseFormat" | "format" | "outputQuality" | "stream" | "previews"
>;

/** Fields about results that change nothing in a request of this kind. */
export function idleOutputFields(
  {
    background,
    response_format: wanted,
    output_quality: preset,
    partial_images: previews,
  }: ImageOutputBody,
  { format, stream, previews: made }: ImageOutputSettings,
  { layers }: RequestContext["info"],
): Record<string, boolean> {
  const isExact = format === "png";
  return {
    // It chooses the format; only layers have transparency.
    background: background?.toLowerCase() === "transparent" && layers === undefined,
    // A stream brings the files themselves.
    response_format: stream && wanted === "url",
    partial_images: made === 0 && previews !== 0,
    output_compression: isExact,
    ...(isExact ? { output_quality: preset !== "default" } : {}),
  };
}

/** The fields that {@link readImageOutput} reads. */
interface ImageOutputBody {
  model?: string | null | undefined;
  response_format?: string | null | undefined;
  output_format?: string | null | undefined;
  background?: string | null | undefined;
  output_quality?: string | null | undefined;
  output_compression?: number | null | undefined;
  stream?: boolean | null | undefined;
  partial_images?: number | null | undefined;
}

/**
 * Reads what an image request says of its results.
 *
 * @throws {ApiError} 400 for wrong values
 */
export function readImageOutput(
  fields: ImageOutputBody,
  context: RequestContext,
): ImageOutputSettings {
  const previews = fields.partial_images ?? 0;
  if (previews < 0 || previews > MAX_PREVIEWS) {
    throw badRequest(
      `partial_images must be between 0 and ${MAX_PREVIEWS}, got ${previews}`,
      "partial_images",
    );
  }
  return {
    responseFormat: readResponseFormat(fields, context.persistent),
    format: readFormat(fields, context.info.layers !== undefined),
    outputQuality: readOutputQuality(fields, "image"),
    stream: fields.stream === true,
    previews: fields.stream === true || context.respondsAsync ? previews : 0,
  };
}

function readResponseFormat(
  { response_format: format, model }: ImageOutputBody,
  persistent: boolean,
): ResponseFormat {
  if (format === undefined || format === null) {
    return persistent && !GPT_IMAGE.test(model ?? "") ? "both" : "b64_json";
  }
  if (format !== "url" && format !== "b64_json") {
    throw badRequest(`response_format=${shorten(format)} is not supported`, "response_format");
  }
  if (format === "url" && !persistent) {
    throw badRequest(
      "response_format='url' requires cloud storage to be configured.",
      "response_format",
    );
  }
  return format;
}

function readFormat(fields: ImageOutputBody, hasLayers: boolean): OutputFormat {
  const [background, name] = [fields.background, fields.output_format]
    .map((text) => text?.toLowerCase());
  checkChoice("background", background, BACKGROUNDS);
  checkChoice("output_format", name, Object.keys(FORMATS));
  const transparent = background === "transparent" || hasLayers;
  if (!name) return transparent ? "png" : "jpeg";
  const format = FORMATS[name]!;
  if (transparent && format === "jpeg") {
    throw badRequest(
      `Cannot write ${
        hasLayers ? "layers" : "a transparent background"
      } as JPEG: use output_format png or webp`,
      "output_format",
    );
  }
  return format;
}
