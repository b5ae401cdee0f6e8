/** Images that came from outside. */

import { stat } from "node:fs/promises";
import type { InputImage } from "../../engine/types.ts";
import { checkPainted, givenImage } from "../../generation/fit_inputs.ts";
import type { InputReader } from "../../generation/prepare.ts";
import type { ImageInfo } from "../../media/decode.ts";
import { ImageError } from "../../media/image.ts";
import {
  decodeOwnImage,
  fitForeignImage,
  inspectForeignImage,
  maskForeignImage,
} from "../../media/isolated/images.ts";
import { BusyError } from "../../media/isolated/slots.ts";
import { ApiError } from "../contract/errors.ts";
import {
  badSource,
  type InputFile,
  type InputSources,
  resolveReferences,
  type Source,
  tooBusy,
} from "./references.ts";

const MAX_IMAGE_BYTES = 64 * 2 ** 20;

/** An image whose container has been read: its format, and its size upright. */
export interface OpenImage extends InputFile, ImageInfo {}

/** How a request's images are read: into PNG files beside the originals, so that a job can begin long after it. */
export interface RequestImages {
  readonly source: Source | InputFile;
  readonly open: OpenImage;
  readonly kept: string;
}

export function imageReader(sources: InputSources): InputReader<RequestImages> {
  const { folder, signal } = sources;
  return {
    open: async (source) => {
      const [file] = "kind" in source
        ? [source]
        : await resolveReferences([source], { ...sources, takesVideo: false });
      return await openImage(file!, signal);
    },
    fit: async (image, how) => {
      const { bytes, hasHoles } = await explained(
        image,
        fitForeignImage(image, image, how, { signal }),
      );
      return { image: await folder.write(`${image.field}.png`, bytes), hasHoles };
    },
    mask: async (image, how, way) => {
      const { bytes, share } = await explained(
        image,
        maskForeignImage(image, image, how, { way, signal }),
      );
      checkPainted(share);
      return folder.write(`${image.field}-mask.png`, bytes);
    },
  };
}

/** @throws {ApiError} 400 when it is no image, damaged or too large; 413 when its file is too long; 429 when too many wait */
export async function openImage(file: InputFile, signal?: AbortSignal): Promise<OpenImage> {
  const { size } = await stat(file.path);
  if (size > MAX_IMAGE_BYTES) {
    throw new ApiError(
      413,
      `Cannot use the image: it has ${size} bytes, and at most ${MAX_IMAGE_BYTES} are read`,
      { code: "body_too_large", param: file.field },
    );
  }
  return { ...file, ...await explained(file, inspectForeignImage(file, { signal })) };
}

/** Reads an image that {@link imageReader} kept. */
export async function readImage(path: string, signal?: AbortSignal): Promise<InputImage> {
  return givenImage(await decodeOwnImage({ path }, { signal }));
}

/** A damaged image is its sender's mistake. @throws {ApiError} 400 for it; 429 when too many wait */
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
