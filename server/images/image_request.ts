/** From the body of an image request, or the form of an edit, to what has to be done, with every mistake found before work begins. */

import { type InputReader, type Prepared, prepareImages } from "../../generation/prepare.ts";
import type { Size } from "../../generation/size.ts";
import { shorten } from "../../generation/texts.ts";
import type { OutputFormat } from "../../media/encode.ts";
import type { MaskWay } from "../../media/mask.ts";
import { checkChoice, readScalars, refusePaths, validate } from "../contract/validate.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { EDIT_SPELLINGS, flattenExtras, inputName, unreadFiles } from "../contract/fields.ts";
import {
  findIgnored,
  prepared,
  readGeneration,
  readOutputQuality,
  type RequestContext,
  type RequestOptions,
} from "../contract/generation.ts";
import {
  imageEditFieldTable,
  imageEditSchema,
  imageFieldTable,
  imageGenerationSchema,
  PATH_FIELDS,
} from "../contract/generation_fields.ts";
import type { WithGiven } from "../inputs/kept_inputs.ts";
import { oneSource, type Source, sourcesOf } from "../inputs/sources.ts";

/** One checked image request; a JSON value, so that it outlives the server. Inputs are paths of PNG files. */
export interface ImageRequest
  extends Prepared<string>, RequestOptions, ImageOutputSettings, WithGiven {
  model?: string;
  ignored: string[];
}

/** What an image request brings beside its fields. */
interface ImageInputs<Upload, Open extends Size> {
  readonly uploads?: readonly Upload[];
  /** Keeps what it reads under paths. */
  readonly reader: InputReader<
    { readonly source: Source<Upload>; readonly open: Open; readonly kept: string }
  >;
  /** How a mask is read, where not as usual. */
  readonly maskWay?: MaskWay;
}

/** What a generation and an edit differ in. */
const KINDS = {
  generation: {
    schema: imageGenerationSchema,
    table: imageFieldTable,
    spellings: {
      control: EDIT_SPELLINGS["control"]!,
      reference: EDIT_SPELLINGS["reference"]!,
      reference_mask: EDIT_SPELLINGS["reference_mask"]!,
    },
    howToSend: { image: "'image' or 'url' to /v1/images/edits" },
  },
  edit: {
    schema: imageEditSchema,
    table: imageEditFieldTable,
    spellings: EDIT_SPELLINGS,
    howToSend: {},
  },
};

/** @throws {ApiError} 422 for wrong types and a missing image, 400 for wrong values */
export async function readImageRequest<
  Upload extends { readonly field: string },
  Open extends Size,
>(
  kind: keyof typeof KINDS,
  json: unknown,
  context: RequestContext,
  inputs: ImageInputs<Upload, Open>,
): Promise<ImageRequest> {
  const { schema, table, spellings, howToSend } = KINDS[kind];
  const { info } = context;
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const body = isObject ? flattenExtras(json as Record<string, unknown>, spellings) : json;
  const fields = validate(schema as typeof imageEditSchema, readScalars(body, schema));
  refusePaths(fields, PATH_FIELDS);
  const files = (inputs.uploads ?? []).map((file) => ({
    ...file,
    field: inputName(file.field, EDIT_SPELLINGS),
  }));
  // Files come first, then addresses.
  const images = kind === "generation"
    ? []
    : [...sourcesOf("image", fields.image, files), ...sourcesOf("url", fields.url, files)]
      .toSorted((a, b) => Number("url" in a) - Number("url" in b));
  if (kind === "edit" && images.length === 0) {
    const message = "Field 'image' or 'url' is required";
    throw new ApiError(422, message, { param: "image", code: "missing" });
  }
  const output = readImageOutput(fields, context);
  const mask = kind === "edit" ? oneSource("mask", fields.mask, files) : undefined;
  const control = sourcesOf("control", fields.control, files);
  const references = sourcesOf("reference", fields.reference, files);
  const referenceMasks = sourcesOf("reference_mask", fields.reference_mask, files);
  const { asked, options, spell, paramOf } = readGeneration(fields, context);
  const { maskWay, reader } = inputs;
  const { previews } = output;
  const loras = context.nameLoras(fields.loras);
  const { ready, idle } = await prepared(
    () =>
      prepareImages(
        { ...asked, images, mask, maskWay, control, references, referenceMasks, loras, previews },
        { ...context, reader, spell, howToSend },
      ),
    (field) => field === "images" ? images[0]?.field ?? "image" : paramOf(field),
  );
  const unread = unreadFiles(files, EDIT_SPELLINGS);
  const named = {
    ...fields,
    ...(mask && { mask: "a file" }),
    ...(references.length > 0 && { reference: "given" }),
    ...(referenceMasks.length > 0 && { reference_mask: "given" }),
    ...unread.fields,
  };
  const ignored = findIgnored(named, table, context, {
    ...idleOutputFields(fields, output, info),
    ...idle,
    ...unread.idle,
  });
  const model = context.servedModelName;
  const found = await context.findLoras(fields.loras);
  return { ...ready.request, ...options, ...output, loras: found, model, ignored };
}

/** The seed of each image, or of each layer. */
export function outputSeeds(
  { seeds, layers = 1 }: Pick<ImageRequest, "seeds" | "layers">,
): number[] {
  return seeds.flatMap((seed) => new Array<number>(layers).fill(seed));
}

/** How the results of an image request come back; `both` where it does not say. */
type ResponseFormat = "url" | "b64_json" | "both";

export const BACKGROUNDS: readonly string[] = ["auto", "transparent", "opaque"];
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
  format: OutputFormat;
  /** 0 (small) to 100 (best). */
  outputQuality: number;
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
  { layers, givesAlpha }: RequestContext["info"],
): Record<string, boolean> {
  const isExact = format === "png";
  return {
    // It chooses the format.
    background: background?.toLowerCase() === "transparent" && !layers && !givesAlpha,
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
