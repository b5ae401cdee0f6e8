/**
 * From the body of an image request, or the form of an edit, to what has to be done, with every mistake found before
 * any work begins.
 */

import { type Prepared, prepareImages } from "../../generation/prepare.ts";
import type { MaskWay } from "../../media/mask.ts";
import { refusePaths } from "../contract/checks.ts";
import { ApiError } from "../contract/errors.ts";
import { flattenExtras } from "../contract/fields.ts";
import {
  findIgnored,
  prepared,
  readGeneration,
  type RequestContext,
  type RequestOptions,
} from "../contract/generation.ts";
import { PATH_FIELDS } from "../contract/generation_fields.ts";
import {
  imageEditFieldTable,
  imageEditSchema,
  imageFieldTable,
  imageGenerationSchema,
} from "../contract/image_fields.ts";
import { readScalars } from "../contract/scalars.ts";
import { EDIT_SPELLINGS, inputName, unreadFiles } from "../contract/spellings.ts";
import { validate } from "../contract/validate.ts";
import { imageReader } from "../inputs/images.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import { type InputSources, oneSource, sourcesOf } from "../inputs/references.ts";
import { idleOutputFields, type ImageOutputSettings, readImageOutput } from "./image_output.ts";

/** One checked image request; a JSON value, so that it outlives the server. Inputs are paths of PNG files. */
export interface ImageRequest extends Prepared<string>, RequestOptions, ImageOutputSettings {
  /** The public name of the model; the first of the server by default. */
  model?: string;
  /** Fields of the body that had no effect. */
  ignored: string[];
}

/** What an image request brings beside its fields. */
interface ImageInputs extends InputSources {
  /** Files of its form. */
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

/**
 * Reads a request for images.
 *
 * @throws {ApiError} 422 for wrong types and a missing image, 400 for wrong values
 */
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
  const { asked, options, spell, paramOf } = await readGeneration(fields, context);
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
  return { ...ready.request, ...options, ...output, model: context.servedModelName, ignored };
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
