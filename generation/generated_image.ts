/** A finished image in memory, and as a file. */

import { extname, writeFile } from "../platform/mod.ts";
import { encodeImage, type OutputFormat } from "../media/encode.ts";
import { type PixelImage, toRgb } from "../media/image.ts";
import { describeWriteError } from "./write_error.ts";
import { type Recipe, recipeText } from "./recipe.ts";

/** An image, with all that is needed to make it again. */
export class GeneratedImage {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** `width * height * channels` bytes: R, G, B, and alpha where the image has some, for each pixel, row by row from the top. */
  readonly data: Uint8Array;
  /** Bytes per pixel: 3, or 4 of an image with alpha. */
  readonly channels: 3 | 4;
  /** How the image was made; every file carries it as text. */
  readonly recipe: Recipe;

  /**
   * Puts an image together from its recipe and its pixels.
   *
   * @param recipe how the image was made, with its size
   * @param data the pixels
   * @param channels bytes per pixel
   */
  constructor(recipe: Recipe, data: Uint8Array, channels: 3 | 4 = 3) {
    this.width = recipe.width;
    this.height = recipe.height;
    this.recipe = recipe;
    this.data = data;
    this.channels = channels;
  }

  /**
   * The image as a PNG file.
   *
   * @returns the file's bytes
   */
  toPng(): Promise<Uint8Array<ArrayBuffer>> {
    return this.encode("png");
  }

  /**
   * The image as a file; in a JPEG what is transparent lies on white.
   *
   * @param format of the file
   * @param quality 0 (small) to 100 (best), default 75; PNG is exact at any
   * @returns the file's bytes
   * @throws {RangeError} for a quality outside 0 to 100
   * @throws {TypeError} when a layer is to become a JPEG, which has no alpha
   */
  async encode(format: OutputFormat, quality = 75): Promise<Uint8Array<ArrayBuffer>> {
    const { width, height, data, channels, recipe } = this;
    const text = recipeText(recipe, format);
    const image = { width, height, data, channels } as PixelImage;
    const isFlat = format === "jpeg" && recipe.layer === undefined;
    const { bytes } = await encodeImage(isFlat ? toRgb(image) : image, { format, quality, text });
    return bytes;
  }

  /**
   * The image as a file in memory, such as `URL.createObjectURL()` takes.
   *
   * @param format of the file
   * @param quality as for {@link GeneratedImage.encode}
   * @returns the file, with its type
   */
  async toBlob(format: OutputFormat = "png", quality = 75): Promise<Blob> {
    return new Blob([await this.encode(format, quality)], { type: `image/${format}` });
  }

  /**
   * Writes the image to a file; folders on the way are made.
   *
   * @param path ends with `.png`, `.jpg`, `.jpeg` or `.webp`
   * @param quality as for {@link GeneratedImage.encode}
   * @throws {RangeError} for another ending
   * @throws {Error} when the file cannot be written
   */
  async save(path: string, quality = 75): Promise<void> {
    const bytes = await this.encode(formatOfPath(path), quality);
    try {
      await writeFile(path, bytes);
    } catch (cause) {
      throw new Error(`Cannot write ${path}: ${describeWriteError(cause)}`, { cause });
    }
  }
}

/**
 * The format that a file's name asks for.
 *
 * @param path of a file
 * @returns the format
 * @throws {RangeError} unless the path ends with `.png`, `.jpg`, `.jpeg` or `.webp`
 */
export function formatOfPath(path: string): OutputFormat {
  switch (extname(path).toLowerCase()) {
    case ".png":
      return "png";
    case ".jpg":
    case ".jpeg":
      return "jpeg";
    case ".webp":
      return "webp";
    default:
      throw new RangeError(
        `Cannot write ${path}: name it with .png, .jpg, .jpeg or .webp at the end`,
      );
  }
}
