/** What an image request says of its results: how they come back, as which files. */

import { checkChoice } from "../contract/checks.ts";
import { badRequest } from "../contract/errors.ts";
import { readOutputQuality, type RequestContext } from "../contract/generation.ts";
import { shorten } from "../../generation/shorten.ts";
import type { OutputFormat } from "../../media/encode.ts";

/** How the results of an image request come back; `both` where it does not say. */
type ResponseFormat = "url" | "b64_json" | "both";

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

/** What an image request says of its results. */
export interface ImageOutputSettings {
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
}

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
