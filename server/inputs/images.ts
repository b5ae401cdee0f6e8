/** Images that came from outside. */

import { stat } from "node:fs/promises";
import type { InputImage } from "../../engine/types.ts";
import type { ImageInfo } from "../../media/decode.ts";
import { ImageError } from "../../media/image.ts";
import {
  decodeOwnImage,
  fitForeignImage,
  inspectForeignImage,
  maskForeignImage,
} from "../../media/isolated/images.ts";
import { BusyError } from "../../media/isolated/slots.ts";
import { asClientError } from "../contract/checks.ts";
import { ApiError } from "../contract/errors.ts";
import type { FitMode } from "../../generation/fields.ts";
import type { Fit } from "../../media/fit.ts";
import type { MaskWay } from "../../media/mask.ts";
import type { Size } from "../../generation/size.ts";
import { fitOf, givenImage, type ImageRules } from "../../generation/fit_image.ts";
import { checkPainted } from "../../generation/masks.ts";
import type { InputFolder } from "./input_folder.ts";
import { badSource, type InputFile, tooBusy } from "./references.ts";

/** Longest file of an image that is read. */
const MAX_IMAGE_BYTES = 64 * 2 ** 20;

/** An image whose container has been read. */
export interface OpenImage {
  /** File of the image. */
  readonly file: InputFile;
  /** Format of the image, and its size upright. */
  readonly info: ImageInfo;
}

/**
 * Reads the container of an image.
 *
 * @throws {ApiError} 400 when it is no image, damaged or too large; 413 when its file is too long;
 * 429 when too many wait
 */
export async function openImage(file: InputFile, signal?: AbortSignal): Promise<OpenImage> {
  const { size } = await stat(file.path);
  if (size > MAX_IMAGE_BYTES) {
    throw new ApiError(
      413,
      `Cannot use the image: it has ${size} bytes, and at most ${MAX_IMAGE_BYTES} are read`,
      { code: "body_too_large", param: file.field },
    );
  }
  return { file, info: await explained(file, inspectForeignImage(file, { signal })) };
}

/**
 * Decodes an image and brings it to the size in which the model takes it. It is kept beside the original, so that a
 * job can begin long after the request.
 *
 * @throws {ApiError} 400 when it cannot be decoded, or the model cannot use it; 429 when too many wait
 */
export function storeImage(
  image: OpenImage,
  size: Size,
  rules: ImageRules & { readonly fit?: FitMode | undefined },
  folder: InputFolder,
  signal?: AbortSignal,
): Promise<string> {
  return storeFitted(image, fitFor(image, size, rules), folder, signal);
}

/**
 * How an image is brought to the size in which the model takes it.
 *
 * @throws {ApiError} 400 when the model cannot use it
 */
export function fitFor(
  { file, info }: OpenImage,
  size: Size,
  rules: ImageRules & { readonly fit?: FitMode | undefined },
): Fit {
  return asClientError(file.field, () => fitOf(info, size, rules, rules.fit));
}

/**
 * Decodes an image and brings it to a size; see {@link storeImage}.
 *
 * @throws {ApiError} 400 when it cannot be decoded; 429 when too many wait
 */
export async function storeFitted(
  { file, info }: OpenImage,
  how: Fit,
  folder: InputFolder,
  signal?: AbortSignal,
): Promise<string> {
  return (await storeLooked({ file, info }, how, folder, signal)).path;
}

/**
 * Does as {@link storeFitted}, and looks for holes.
 *
 * @returns the path of a PNG, and whether the image had pixels that nothing is seen of
 * @throws {ApiError} as {@link storeFitted} does
 */
export async function storeLooked(
  { file, info }: OpenImage,
  how: Fit,
  folder: InputFolder,
  signal?: AbortSignal,
): Promise<{ path: string; hasHoles: boolean }> {
  const { bytes, hasHoles } = await explained(file, fitForeignImage(file, info, how, { signal }));
  return { path: await folder.write(`${file.field}.png`, bytes), hasHoles };
}

/**
 * Makes a mask of an image and brings it to a size.
 *
 * @param options how it is read, and what stops it
 * @returns the path of a PNG that is white where the result is painted
 * @throws {ApiError} 400 when it cannot be decoded, or nothing is painted; 429 when too many wait
 */
export async function storeMask(
  { file, info }: OpenImage,
  how: Fit,
  folder: InputFolder,
  options: { readonly way?: MaskWay | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<string> {
  const { bytes, share } = await explained(file, maskForeignImage(file, info, how, options));
  asClientError(file.field, () => checkPainted(share));
  return folder.write(`${file.field}-mask.png`, bytes);
}

/**
 * Reads an image that {@link storeImage} left.
 *
 * @returns its pixels
 */
export async function readImage(path: string, signal?: AbortSignal): Promise<InputImage> {
  return givenImage(await decodeOwnImage({ path }, { signal }));
}

/**
 * A damaged image is its sender's mistake.
 *
 * @throws {ApiError} 400 for a damaged image; 429 when too many wait
 */
export async function explained<T>(
  { field }: Pick<InputFile, "field">,
  reading: Promise<T>,
): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ImageError) throw badSource(field, error.message);
    if (error instanceof BusyError) throw tooBusy("images", error);
    throw error;
  }
}
