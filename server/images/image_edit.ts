/**
 * From the form of an image edit to what has to be done, with every mistake found before any work
 * begins.
 */

import type { Form, UploadedFile } from "../inputs/multipart.ts";
import { sizeFromImage } from "../../generation/fit_image.ts";
import {
  checkMaskShape,
  fitMasked,
  maskedRules,
  sizeFromMasked,
  takesMask,
} from "../../generation/masks.ts";
import {
  fitFor,
  type OpenImage,
  openImage,
  storeFitted,
  storeImage,
  storeLooked,
  storeMask,
} from "../inputs/images.ts";
import {
  checkMode,
  type ControlSources,
  openControl,
  storeControl,
} from "../inputs/control_picture.ts";
import { oneSource, resolveReferences, type Source, sourcesOf } from "../inputs/references.ts";
import { formBody } from "../inputs/form_body.ts";
import { asClientError, refusePaths } from "../contract/checks.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { flattenExtras } from "../contract/fields.ts";
import { EDIT_SPELLINGS, inputName, unreadFiles, withInputNames } from "../contract/spellings.ts";
import {
  findIgnored,
  readFit,
  readGeneration,
  readSize,
  type RequestContext,
} from "../contract/generation.ts";
import { PATH_FIELDS } from "../contract/generation_fields.ts";
import { imageEditFieldTable, imageEditSchema } from "../contract/image_fields.ts";
import { idleOutputFields, type ImageRequest, readImageOutput } from "./image_generation.ts";
import { readScalars } from "../contract/scalars.ts";
import { checkSize, type Size } from "../../generation/size.ts";
import type { MaskWay } from "../../media/mask.ts";
import { resolveTask } from "../../generation/task.ts";
import { validate } from "../contract/validate.ts";

/** What an edit's images are fetched with. */
interface EditSources extends ControlSources {
  /** How a mask is read, where not as usual. */
  readonly maskWay?: MaskWay;
}

/**
 * Reads an image edit.
 *
 * @throws {ApiError} 422 for wrong types and a missing image, 400 for wrong values
 */
export async function readImageEdit(
  form: Form,
  context: RequestContext,
  sources: EditSources,
): Promise<ImageRequest> {
  const texts = withInputNames(form.fields, EDIT_SPELLINGS);
  return await readEdit(formBody(texts, imageEditSchema), form.files, context, sources);
}

/**
 * Reads an image edit whose files are on the disk.
 *
 * @throws {ApiError} as {@link readImageEdit} does
 */
export async function readEdit(
  json: Record<string, unknown>,
  uploads: readonly UploadedFile[],
  context: RequestContext,
  sources: EditSources,
): Promise<ImageRequest> {
  const { info } = context;
  const files = uploads.map((file) => ({ ...file, field: inputName(file.field, EDIT_SPELLINGS) }));
  const body = flattenExtras(json, EDIT_SPELLINGS);
  const fields = validate(imageEditSchema, readScalars(body, imageEditSchema));
  refusePaths(fields, PATH_FIELDS);
  const images = (["image", "url"] as const).map((name) => sourcesOf(name, fields[name], files));
  // Files come first, then addresses.
  const given = images.flat().toSorted((a, b) => Number("url" in a) - Number("url" in b));
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
  if (given.length > info.maxEditImages) {
    throw badRequest(
      `Cannot edit ${given.length} images at once: this model takes ${info.maxEditImages}`,
      given[0]!.field,
    );
  }
  const output = readImageOutput(fields, context);
  const fit = readFit(fields.fit);
  const mask = oneSource("mask", fields.mask, files);
  const isTaken = takesMask(info, taskType);
  const control = await openControl(fields.control, files, info, sources);
  // The image may turn out to be its own mask, which decides what can be said.
  const read = (isMasked: boolean) => {
    const rules = isMasked ? { ...context, info: maskedRules(info) } : context;
    const { settings, idle } = readGeneration(fields, taskType, rules);
    const unread = unreadFiles(files, EDIT_SPELLINGS);
    const named = { ...fields, ...(mask ? { mask: "a file" } : {}), ...unread.fields };
    const ignored = findIgnored(named, imageEditFieldTable, rules, {
      ...idleOutputFields(fields, output, info),
      ...{ ...idle, ...unread.idle },
      mask: !isTaken,
      fit: info.imageLimits !== undefined && !isMasked && !control,
    });
    return { ...settings, ignored };
  };
  const hasMask = isTaken && mask !== undefined;
  const settings = { ...read(hasMask), ...output, loras: await context.findLoras(fields.loras) };
  if (control) checkMode(settings, info);
  const edited = await openEdited(given, hasMask ? mask : undefined, sources);
  const [first] = edited.images;
  const sizeOf = async (isMasked: boolean): Promise<Size> => {
    const ownSize = isMasked ? sizeFromMasked : sizeFromImage;
    const own = asClientError(first.file.field, () => ownSize(first.info, info));
    const size = readSize(fields, own);
    asClientError("size", () => checkSize(size, info));
    await context.checkRoom(
      {
        ...{ ...settings, ...size, images: given.length, hasMask, previews: output.previews },
        hasControl: control !== undefined,
      },
      "size",
    );
    return size;
  };
  const { size, ...stored } = await storeEdited(edited, sizeOf, { ...info, fit }, isTaken, sources);
  const isOwnMask = stored.mask !== undefined && !hasMask;
  return {
    ...settings,
    ...(isOwnMask ? { ...read(true), seeds: settings.seeds } : {}),
    ...{ ...size, model: context.servedModelName },
    ...stored,
    ...(control && { control: await storeControl(control, size, fit, sources) }),
  };
}

/** What an edit brings. */
interface Edited {
  readonly images: readonly [OpenImage, ...OpenImage[]];
  readonly mask: OpenImage | undefined;
}

/** Fetches and opens images, and the mask where there is one. */
async function openEdited(
  given: readonly Source[],
  mask: Source | undefined,
  sources: EditSources,
): Promise<Edited> {
  const all = mask ? [...given, mask] : given;
  const files = await resolveReferences(all, { ...sources, takesVideo: false });
  const images: OpenImage[] = [];
  for (const file of files) images.push(await openImage(file, sources.signal));
  const opened = mask && images.pop();
  if (opened) asClientError("mask", () => checkMaskShape(opened.info, images[0]!.info));
  return { images: images as [OpenImage, ...OpenImage[]], mask: opened };
}

/** Brings what an edit brings to the sizes in which the model takes it; an image with holes is its own mask. */
async function storeEdited(
  { images: [first, ...others], mask }: Edited,
  sizeOf: (isMasked: boolean) => Promise<Size>,
  rules: Parameters<typeof fitFor>[2],
  takesMask: boolean,
  { folder, signal, maskWay }: EditSources,
): Promise<Pick<ImageRequest, "images" | "mask"> & { readonly size: Size }> {
  let size = await sizeOf(mask !== undefined);
  const keep = async (own: OpenImage, way?: MaskWay) => {
    const how = fitMasked(first.info, size, rules, rules.fit);
    return {
      mask: await storeMask(own, how, folder, { way, signal }),
      path: await storeFitted(first, how, folder, signal),
    };
  };
  let kept = mask && await keep(mask, maskWay);
  const looked = kept
    ? undefined
    : await storeLooked(first, fitFor(first, size, rules), folder, signal);
  if (looked?.hasHoles && takesMask && others.length === 0) {
    size = await sizeOf(true);
    kept = await keep(first);
  }
  const images = [kept?.path ?? looked!.path];
  for (const image of others) images.push(await storeImage(image, size, rules, folder, signal));
  return { size, images, ...(kept ? { mask: kept.mask } : {}) };
}
