/**
 * Images as Qwen2.5-VL's vision tower takes them: their size, their patches, and the order in which these lie.
 *
 * Source: transformers `Qwen2VLImageProcessor` and `get_vision_window_index`.
 */
import type { RgbImage } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import { toClipPixels } from "./clip_vision.ts";

/** Patches along a side of what becomes one token. */
export const PATCHES_PER_SIDE = 2;

/** Fewest and most pixels of an image, of the published models' `preprocessor_config.json`. */
const MIN_PIXELS = 56 * 56;
const MAX_PIXELS = 12845056;

/** A width and a height in pixels. */
interface Sides {
  readonly width: number;
  readonly height: number;
}

export interface PatchGrid {
  readonly rows: number;
  readonly columns: number;
}

/** The order in which the tower takes the patches of an image: window by window, windows of one size together. */
export interface PatchLayout {
  /** Row and column of every patch. */
  readonly positions: readonly (readonly [row: number, column: number])[];
  /** Runs of windows that have as many patches. */
  readonly windows: readonly { readonly count: number; readonly length: number }[];
  /** Place of every token in that order, row by row. */
  readonly order: Uint32Array<ArrayBuffer>;
}

/**
 * The size that an image is brought to: sides that hold whole tokens.
 *
 * @param factor pixels along a side of a token
 */
function smartSize({ width, height }: Sides, factor: number): Sides {
  const [w, h] = [width, height].map((side) => roundToEven(side / factor) * factor) as [
    number,
    number,
  ];
  if (w * h > MAX_PIXELS) {
    const beta = Math.sqrt(width * height / MAX_PIXELS);
    const floor = (side: number) => Math.max(factor, Math.floor(side / beta / factor) * factor);
    return { width: floor(width), height: floor(height) };
  }
  if (w * h < MIN_PIXELS) {
    const beta = Math.sqrt(MIN_PIXELS / (width * height));
    const ceil = (side: number) => Math.ceil(side * beta / factor) * factor;
    return { width: ceil(width), height: ceil(height) };
  }
  return { width: w, height: h };
}

/** Rounds as Python does: halves go to the even number. */
export function roundToEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** How the patches of an image of this size lie, once it is brought to {@linkcode smartSize}. */
export function patchGrid(size: Sides, patchSide: number): PatchGrid {
  const { width, height } = smartSize(size, PATCHES_PER_SIDE * patchSide);
  return { rows: height / patchSide, columns: width / patchSide };
}

export function tokensOf({ rows, columns }: PatchGrid): number {
  return rows * columns / PATCHES_PER_SIDE ** 2;
}

export function patchLayout({ rows, columns }: PatchGrid, windowSide: number): PatchLayout {
  const [height, width] = [rows / PATCHES_PER_SIDE, columns / PATCHES_PER_SIDE];
  const windows: number[][] = [];
  for (let top = 0; top < height; top += windowSide) {
    for (let left = 0; left < width; left += windowSide) {
      const tokens: number[] = [];
      for (let y = top; y < Math.min(height, top + windowSide); y++) {
        for (let x = left; x < Math.min(width, left + windowSide); x++) tokens.push(y * width + x);
      }
      windows.push(tokens);
    }
  }
  const bySize = [...Map.groupBy(windows, ({ length }) => length)];
  const placed = bySize.flatMap(([, group]) => group.flat());
  const order = new Uint32Array(placed.length);
  placed.forEach((token, i) => order[token] = i);
  const places = Array.from({ length: PATCHES_PER_SIDE ** 2 }, (_, i) => i);
  return {
    positions: placed.flatMap((token) =>
      places.map((i) =>
        [
          PATCHES_PER_SIDE * Math.floor(token / width) + Math.floor(i / PATCHES_PER_SIDE),
          PATCHES_PER_SIDE * (token % width) + i % PATCHES_PER_SIDE,
        ] as const
      )
    ),
    windows: bySize.map(([length, { length: count }]) => ({
      count,
      length: length * places.length,
    })),
    order,
  };
}

/**
 * The patches of an image, normalised: [patches, patchSide² · 3], each in the order (row, column, channel).
 */
export function patchPixels(
  image: RgbImage,
  { positions }: PatchLayout,
  patchSide: number,
): Float32Array<ArrayBuffer> {
  const { width, height } = smartSize(image, PATCHES_PER_SIDE * patchSide);
  const pixels = toClipPixels(resize(image, width, height, "bicubic").data);
  const line = patchSide * 3;
  const result = new Float32Array(positions.length * patchSide * line);
  let to = 0;
  for (const [row, column] of positions) {
    for (let y = 0; y < patchSide; y++, to += line) {
      const from = ((row * patchSide + y) * width + column * patchSide) * 3;
      result.set(pixels.subarray(from, from + line), to);
    }
  }
  return result;
}
