/**
 * Pictures that came from outside, brought to the size of the result.
 *
 * @module
 */

import { readFile, stat } from "node:fs/promises";
import type { Picture } from "../../engine/types.ts";
import { decodeImage, inspectImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { crop, ImageError, toRgb } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import { ApiError } from "../contract/errors.ts";
import type { Size } from "../contract/size.ts";
import type { InputFolder } from "./input_folder.ts";
import { badSource, type InputFile } from "./references.ts";

/** Longest file of a picture that is read into memory. */
const MAX_PICTURE_BYTES = 64 * 2 ** 20;

/**
 * Reads how large a picture is, without decoding it.
 *
 * @param file of any origin
 * @returns its size as stored
 * @throws {ApiError} 400 when it is no picture
 */
export async function pictureSize(file: InputFile): Promise<Size> {
  const bytes = await readBounded(file);
  return explained(file, () => inspectImage(bytes));
}

/**
 * Brings a picture to a size: it covers the frame, and what is too much at the longer side is cut
 * off evenly. The result is kept beside the original, so that a job can begin long after the request.
 *
 * @param file of any origin
 * @param size of the result
 * @param folder takes the result
 * @returns the path of a PNG
 * @throws {ApiError} 400 when it cannot be decoded
 */
export async function fitPicture(
  file: InputFile,
  size: Size,
  folder: InputFolder,
): Promise<string> {
  const bytes = await readBounded(file);
  const image = toRgb(await explained(file, () => decodeImage(bytes)));
  // Cut first: a picture of one column, scaled to cover a square, would be huge in between.
  const scale = Math.min(image.width / size.width, image.height / size.height);
  const width = Math.min(image.width, Math.max(1, Math.round(size.width * scale)));
  const height = Math.min(image.height, Math.max(1, Math.round(size.height * scale)));
  const left = Math.floor((image.width - width) / 2);
  const top = Math.floor((image.height - height) / 2);
  const fitted = resize(crop(image, left, top, width, height), size.width, size.height);
  const { bytes: png } = await encodeImage(fitted, { format: "png" });
  return folder.write(`${file.field}.png`, png);
}

/**
 * Reads a picture that {@link fitPicture} left.
 *
 * @param path of the PNG
 * @returns its pixels
 */
export async function readPicture(path: string): Promise<Picture> {
  const { width, height, data } = toRgb(await decodeImage(await readFile(path)));
  return { width, height, data };
}

/** A damaged picture is its sender's mistake. */
async function explained<T>({ field }: InputFile, read: () => T | Promise<T>): Promise<T> {
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
