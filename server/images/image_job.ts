/** From the body of an image request, or the form of an edit, to what has to be done, with every mistake found before work begins. */

import { engineRequest, type Prepared, prepareImages } from "../../generation/prepare.ts";
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
import {
  imageReader,
  type InputSources,
  oneSource,
  readImage,
  sourcesOf,
} from "../inputs/references.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import { shorten } from "../../generation/texts.ts";
import type { OutputFormat } from "../../media/encode.ts";
import type { Engine } from "../../engine/types.ts";
import { recipeOf, recipeText } from "../../generation/recipe.ts";
import type { PixelImage } from "../../media/image.ts";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import type { JobContext } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { type JobFacts, type JobResult, makeOutputs, type StageClock } from "../jobs/outputs.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";

/** One checked image request; a JSON value, so that it outlives the server. Inputs are paths of PNG files. */
export interface ImageRequest extends Prepared<string>, RequestOptions, ImageOutputSettings {
  model?: string;
  ignored: string[];
}

/** What an image request brings beside its fields. */
interface ImageInputs extends InputSources {
  readonly uploads?: readonly UploadedFile[];
  /** How a mask is read, where not as usual. */
  readonly maskWay?: MaskWay;
}

/** What a generation and an edit differ in. */
const KINDS = {
  generation: {
    schema: imageGenerationSchema,
    table: imageFieldTable,
    spellings: { control: EDIT_SPELLINGS["control"]! },
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
export async function readImageRequest(
  kind: keyof typeof KINDS,
  json: unknown,
  context: RequestContext,
  inputs: ImageInputs,
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
  const control = oneSource("control", fields.control, files);
  const { asked, options, spell, paramOf } = readGeneration(fields, context);
  const { maskWay } = inputs;
  const { previews } = output;
  const { ready, idle } = await prepared(
    () =>
      prepareImages(
        { ...asked, images, mask, maskWay, control, previews },
        { ...context, reader: imageReader(inputs), spell, howToSend },
      ),
    (field) => field === "images" ? images[0]?.field ?? "image" : paramOf(field),
  );
  const unread = unreadFiles(files, EDIT_SPELLINGS);
  const named = { ...fields, ...(mask && { mask: "a file" }), ...unread.fields };
  const ignored = findIgnored(named, table, context, {
    ...idleOutputFields(fields, output, info),
    ...idle,
    ...unread.idle,
  });
  const loras = await context.findLoras(fields.loras);
  const model = context.servedModelName;
  return { ...ready.request, ...options, ...output, loras, model, ignored };
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

export interface ImageOutput {
  bytes: Uint8Array<ArrayBuffer>;
  /** File of the image; absent when results are not kept. */
  file?: StoredFile;
}

export interface ImageOutcome extends JobFacts {
  /** Outputs in the order of the seeds; of each all layers, where there are some. */
  outputs: ImageOutput[];
  prompt: string;
}

interface ImageJob {
  engine: Engine;
  request: ImageRequest;
  model: string;
  /** Keeps the files; without it they live in the answer only. */
  storage: ResultStorage | undefined;
  stages?: StageClock;
}

/**
 * Makes the images of a request.
 *
 * @throws {ServiceError} with the engine's words when it refuses the request; anything else that
 * engine or disk throw. Files written so far are removed then
 */
export async function runImageJob(job: ImageJob, context: JobContext): Promise<ImageOutcome> {
  const { request, storage, model } = job;
  const outputs: ImageOutput[] = [];
  try {
    const read = (path: string) => readImage(path, context.signal);
    const mask = request.mask && await read(request.mask);
    const control = request.control && await read(request.control);
    const inputs = {
      images: await Promise.all(request.images.map(read)),
      ...(mask && { mask: [mask] }),
      ...(control && { control }),
    };
    // Each seed gives as many images as the model has layers.
    const total = outputSeeds(request).length;
    const { previews, format, outputQuality: quality } = request;
    const facts = await makeOutputs({ ...job, previews }, context, async ({ index, generate }) => {
      const seed = request.seeds[index]!;
      const made = await generate({ ...engineRequest(request, seed), ...inputs });
      if (made.frames.length === 0) {
        throw new Error("Cannot make an image: the engine gave no frame");
      }
      const { width, height, channels } = made;
      for (const [layer, data] of made.frames.entries()) {
        const recipe = {
          ...recipeOf(request, { ...made, seed, model }),
          ...(channels && { layer }),
        };
        const { bytes, contentType, extension } = await encodeOwnImage(
          { width, height, data, ...(channels && { channels }) } as PixelImage,
          { format, quality, text: recipeText(recipe, format) },
        );
        const place = index * made.frames.length + layer;
        const name = `${context.id}${total > 1 ? `_${place}` : ""}.${extension}`;
        const file = await storage?.write(name, bytes, contentType);
        outputs[place] = file ? { bytes, file } : { bytes };
        context.output({ index: place, ...outputs[place] });
      }
    });
    return { outputs, prompt: request.prompt, ...facts };
  } catch (error) {
    await removeFiles(outputs.filter((output) => output), storage);
    throw error;
  }
}

/** The part of an outcome that is recorded. */
export function toImageResult({ outputs, prompt: _, ...facts }: ImageOutcome): JobResult {
  return { ...facts, files: outputs.flatMap(({ file }) => file ?? []) };
}

/** The outcome of a job that another process has completed, with the files' bytes. */
export async function restoreImages(
  { result, revisedPrompt }: JobRecord,
  request: ImageRequest,
  storage: ResultStorage | undefined,
): Promise<ImageOutcome> {
  const { files, ...facts } = result as JobResult;
  const outputs: ImageOutput[] = [];
  for (const file of storage ? files : []) outputs.push({ bytes: await storage!.read(file), file });
  return { ...facts, outputs, prompt: revisedPrompt ?? request.prompt };
}

/** What cannot be removed stays: it is the reason for removing that counts. */
export async function removeFiles(
  outputs: readonly ImageOutput[],
  storage: ResultStorage | undefined,
): Promise<void> {
  for (const { file } of outputs) if (file) await storage?.remove(file).catch(() => {});
}
