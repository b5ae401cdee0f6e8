/**
 * Pictures that came from outside.
 *
 * @module
 */

import { readFile, stat } from "node:fs/promises";
import type { Picture } from "../../engine/types.ts";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { ImageError, toRgb } from "../../media/image.ts";
import { asClientError } from "../contract/checks.ts";
import { ApiError } from "../contract/errors.ts";
import type { Size } from "../contract/size.ts";
import { fitPicture, type PictureRules } from "./fit_picture.ts";
import type { InputFolder } from "./input_folder.ts";
import { badSource, type InputFile } from "./references.ts";

/** Longest file of a picture that is read into memory. */
const MAX_PICTURE_BYTES = 64 * 2 ** 20;

/**
 * Reads how large a picture is, upright: only decoding turns a photo, and its shape with it.
 *
 * @param file of any origin
 * @returns its size
 * @throws {ApiError} 400 when it cannot be decoded
 */
export async function pictureSize(file: InputFile): Promise<Size> {
  const bytes = await readBounded(file);
  const { width, height } = await explained(file, () => decodeImage(bytes));
  return { width, height };
}

/**
 * Brings a picture to the size in which the model takes it. It is kept beside the original, so that a job can begin
 * long after the request.
 *
 * @param file of any origin
 * @param size of the result
 * @param rules of the model
 * @param folder takes the result
 * @returns the path of a PNG
 * @throws {ApiError} 400 when it cannot be decoded, or the model cannot use it
 */
export async function storePicture(
  file: InputFile,
  size: Size,
  rules: PictureRules,
  folder: InputFolder,
): Promise<string> {
  const bytes = await readBounded(file);
  const image = await explained(file, () => decodeImage(bytes));
  const fitted = asClientError(file.field, () => fitPicture(image, size, rules));
  const { bytes: png } = await encodeImage(fitted, { format: "png" });
  return folder.write(`${file.field}.png`, png);
}

/**
 * Reads a picture that {@link storePicture} left.
 *
 * @param path of the PNG
 * @returns its pixels
 */
export async function readPicture(path: string): Promise<Picture> {
  const { width, height, data } = toRgb(await decodeImage(await readFile(path)));
  return { width, height, data };
}

/** A damaged picture is its sender's mistake. */
async function explained<T>({ field }: InputFile, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ImageError) throw badSource(field, error.message);
    throw error;
  }
}

async function readBounded({ path, field }: InputFile): Promise<Uint8Array> {
  const { size } = await stat(path);
  if (size > MAX_PICTURE_BYTES) {
    throw new ApiError(
      413,
      `Cannot use the picture: it has ${size} bytes, and at most ${MAX_PICTURE_BYTES} are read`,
      { code: "body_too_large", param: field },
    );
  }
  return await readFile(path);
}
