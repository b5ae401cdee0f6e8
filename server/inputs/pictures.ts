/**
 * Pictures that came from outside.
 *
 * @module
 */

import { stat } from "node:fs/promises";
import type { Picture } from "../../engine/types.ts";
import type { ImageInfo } from "../../media/decode.ts";
import { ImageError, toRgb } from "../../media/image.ts";
import {
  decodeOwnImage,
  fitForeignImage,
  inspectForeignImage,
} from "../../media/isolated/images.ts";
import { BusyError } from "../../media/isolated/slots.ts";
import { asClientError } from "../contract/checks.ts";
import { ApiError } from "../contract/errors.ts";
import type { Size } from "../../generation/size.ts";
import { fitOf, type PictureRules } from "../../generation/fit_image.ts";
import type { InputFolder } from "./input_folder.ts";
import { badSource, type InputFile } from "./references.ts";

/** Longest file of a picture that is read. */
const MAX_PICTURE_BYTES = 64 * 2 ** 20;

/** A picture whose container has been read. */
export interface OpenPicture {
  /** Where it lies. */
  readonly file: InputFile;
  /** Its format and its size, upright. */
  readonly info: ImageInfo;
}

/**
 * Reads the container of a picture.
 *
 * @param file of any origin
 * @param signal stops it
 * @returns the picture with its size
 * @throws {ApiError} 400 when it is no picture, damaged or too large; 413 when its file is too long;
 * 429 when too many wait
 */
export async function openPicture(file: InputFile, signal?: AbortSignal): Promise<OpenPicture> {
  const { size } = await stat(file.path);
  if (size > MAX_PICTURE_BYTES) {
    throw new ApiError(
      413,
      `Cannot use the picture: it has ${size} bytes, and at most ${MAX_PICTURE_BYTES} are read`,
      { code: "body_too_large", param: file.field },
    );
  }
  return { file, info: await explained(file, inspectForeignImage(file, { signal })) };
}

/**
 * Decodes a picture and brings it to the size in which the model takes it. It is kept beside the original, so that a
 * job can begin long after the request.
 *
 * @param picture of any origin
 * @param size of the result
 * @param rules of the model
 * @param folder takes the result
 * @param signal stops it
 * @returns the path of a PNG
 * @throws {ApiError} 400 when it cannot be decoded, or the model cannot use it; 429 when too many wait
 */
export async function storePicture(
  { file, info }: OpenPicture,
  size: Size,
  rules: PictureRules,
  folder: InputFolder,
  signal?: AbortSignal,
): Promise<string> {
  const how = asClientError(file.field, () => fitOf(info, size, rules));
  const png = await explained(file, fitForeignImage(file, info, how, { signal }));
  return folder.write(`${file.field}.png`, png);
}

/**
 * Reads a picture that {@link storePicture} left.
 *
 * @param path of the PNG
 * @param signal stops it
 * @returns its pixels
 */
export async function readPicture(path: string, signal?: AbortSignal): Promise<Picture> {
  const { width, height, data } = toRgb(await decodeOwnImage({ path }, { signal }));
  return { width, height, data };
}

/** A damaged picture is its sender's mistake. */
async function explained<T>({ field }: InputFile, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ImageError) throw badSource(field, error.message);
    if (error instanceof BusyError) throw tooBusy("pictures", error);
    throw error;
  }
}

/**
 * The answer to a request whose files would have to wait too long.
 *
 * @param what is waited for
 * @param error says how many wait
 * @returns the error, to be thrown
 */
export function tooBusy(what: string, { message }: BusyError): ApiError {
  return new ApiError(
    429,
    `Cannot read the ${what} of the request: ${message}; try again in 5 s`,
    { code: "busy", headers: { "retry-after": "5" } },
  );
}
