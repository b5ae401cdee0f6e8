/**
 * From the form of an image edit to what has to be done, with every mistake found before any work
 * begins.
 *
 * @module
 */

import type { InputFolder } from "../inputs/input_folder.ts";
import type { Form } from "../inputs/multipart.ts";
import { sizeFromImage } from "../../generation/fit_image.ts";
import { type OpenImage, openImage, storeImage } from "../inputs/images.ts";
import { resolveReferences, type Source } from "../inputs/references.ts";
import { formBody } from "../inputs/form_body.ts";
import { asClientError, refusePaths } from "../contract/checks.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { flattenExtras } from "../contract/fields.ts";
import {
  findIgnored,
  readFit,
  readGeneration,
  readSize,
  type RequestContext,
} from "../contract/generation.ts";
import { PATH_FIELDS } from "../contract/generation_fields.ts";
import { imageEditFieldTable, imageEditSchema } from "../contract/image_fields.ts";
import {
  idleOutputFields,
  type ImageRequest,
  readImageOutput,
} from "../contract/image_generation.ts";
import { readScalars } from "../contract/scalars.ts";
import { checkSize } from "../../generation/size.ts";
import { resolveTask } from "../../generation/task.ts";
import { validate } from "../contract/validate.ts";

/** What an edit's images are fetched with. */
interface EditSources {
  /** Takes the images. */
  readonly folder: InputFolder;
  /** Whether addresses of private networks may be fetched. */
  readonly allowPrivateUrls: boolean;
  /** Stops fetching and decoding. */
  readonly signal?: AbortSignal;
}

/**
 * Reads an image edit. A `mask` is taken and named as unused.
 *
 * @param form its texts and files
 * @param context the model and the server's settings
 * @param sources where images go
 * @returns what has to be done
 * @throws {ApiError} 422 for wrong types and a missing image, 400 for wrong values
 */
export async function readImageEdit(
  form: Form,
  context: RequestContext,
  sources: EditSources,
): Promise<ImageRequest> {
  const { info } = context;
  const body = flattenExtras(formBody(form.fields, imageEditSchema));
  const fields = validate(imageEditSchema, readScalars(body, imageEditSchema));
  refusePaths(fields, PATH_FIELDS);
  const mask = form.files.some(({ field }) => field === "mask") ? { mask: "a file" } : {};
  const given = editSources(form, fields);
  if (given.length === 0) {
    const message = "Field 'image' or 'url' is required";
    throw new ApiError(422, message, { param: "image", code: "missing" });
  }
  const taskType = asClientError("task_type", () =>
    resolveTask({
      ...(fields.task_type ? { taskType: fields.task_type } : {}),
      output: "IMAGE",
      hasImage: true,
      hasVideo: false,
    }, info));
  if (given.length > info.maxImages) {
    throw badRequest(
      `Cannot edit ${given.length} images at once: this model takes ${info.maxImages}`,
      given[0]!.field,
    );
  }
  const output = readImageOutput(fields, context);
  const { settings: sampling, idle } = readGeneration(fields, taskType, context);
  const fit = readFit(fields.fit);
  const settings = {
    ...sampling,
    ...output,
    loras: await context.findLoras(fields.loras),
  };
  const ignored = findIgnored({ ...fields, ...mask }, imageEditFieldTable, context, {
    ...idleOutputFields(fields, output),
    ...idle,
    fit: info.imageLimits !== undefined,
  });
  const files = await resolveReferences(given, { ...sources, takesVideo: false });
  const { folder, signal } = sources;
  const opened: OpenImage[] = [];
  for (const file of files) opened.push(await openImage(file, signal));
  const first = opened[0]!;
  const own = asClientError(first.file.field, () => sizeFromImage(first.info, info));
  const size = readSize(fields, own);
  asClientError("size", () => checkSize(size, info));
  const { length: count } = files;
  await context.checkRoom(
    { ...settings, ...size, images: count, previews: output.previews },
    "size",
  );
  const images: string[] = [];
  for (const image of opened) {
    images.push(await storeImage(image, size, { ...info, fit }, folder, signal));
  }
  return { ...settings, ...size, images, ignored };
}

/** Files first, `image` before `image[]`; then addresses. */
function editSources(form: Form, fields: Record<string, unknown>): Source[] {
  const uploads = (name: string) => form.files.filter(({ field }) => field === name);
  const named = uploads("image");
  const addresses = ["image", "image[]", "url", "url[]"].flatMap((field) =>
    [fields[field] ?? []].flat().flatMap((url) =>
      typeof url === "string" && url !== "" ? [{ field, url }] : []
    )
  );
  return [...(named.length > 0 ? named : uploads("image[]")), ...addresses];
}
