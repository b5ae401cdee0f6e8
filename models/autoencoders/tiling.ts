/**
 * Coding an image in overlapping tiles whose seams are blended, where it does not fit in one piece.
 *
 * Source: diffusers `AutoencoderKL.enable_tiling`: `tiled_decode`, `_tiled_encode`, `blend_v` and `blend_h`. A tile is
 * coded as if it were the whole image, so results differ a little from those of one piece. Unlike there, no tile is
 * made of what the one before has already: coded without surroundings, such slivers at the edge look different.
 */
/** Part of a tile that the next one overlaps. */
const OVERLAP = 0.25;

/** Positions of a side, as a range. */
export interface Span {
  readonly start: number;
  readonly size: number;
}

/** One tile: where it lies in the input, and which row and column of tiles it is in. */
export interface Tile {
  readonly row: number;
  readonly column: number;
  readonly rows: Span;
  readonly columns: Span;
}

/**
 * The tiles of an image, row by row. The last of a row or column are cut where the image ends.
 *
 * @param height of the input, as `width` and `side` in its own positions
 * @param side of a tile, at least 4
 */
export function tilesOf(height: number, width: number, side: number): Tile[] {
  const rows = spansOf(height, side);
  const columns = spansOf(width, side);
  return rows.flatMap((own, row) =>
    columns.map((other, column) => ({ row, column, rows: own, columns: other }))
  );
}

function spansOf(length: number, side: number): Span[] {
  if (length <= side) return [{ start: 0, size: length }];
  const step = Math.floor(side * (1 - OVERLAP));
  const spans: Span[] = [];
  for (let start = 0; start + side - step < length; start += step) {
    spans.push({ start, size: Math.min(side, length - start) });
  }
  return spans;
}

/** A coded tile, channels last. */
interface CodedTile {
  readonly height: number;
  readonly width: number;
  readonly data: Float32Array;
}

/** Puts coded tiles together, given row by row; every seam goes over from one tile to the next in a straight line. */
export class TileBlender {
  /** The whole, [height, width, channels]; complete once all tiles are added. */
  readonly result: Float32Array<ArrayBuffer>;
  readonly #shape: readonly [number, number, number];
  readonly #blend: number;
  readonly #step: number;
  #above: CodedTile[] = [];
  #current: CodedTile[] = [];

  /**
   * @param shape of the result
   * @param side of a coded tile that is not cut
   */
  constructor(shape: readonly [height: number, width: number, channels: number], side: number) {
    this.#shape = shape;
    this.result = new Float32Array(shape[0] * shape[1] * shape[2]);
    this.#blend = Math.floor(side * OVERLAP);
    this.#step = side - this.#blend;
  }

  /**
   * Adds the next tile.
   *
   * @param shape its own [height, width]
   * @param data its values; they are changed
   */
  add({ row, column }: Tile, [height, width]: readonly [number, number], data: Float32Array): void {
    if (column === 0) {
      this.#above = this.#current;
      this.#current = [];
    }
    const tile = { height, width, data };
    const [above, left] = [this.#above[column], this.#current[column - 1]];
    const channels = this.#shape[2];
    if (above) blendDown(above, tile, this.#blend, channels);
    if (left) blendRight(left, tile, this.#blend, channels);
    this.#current.push(tile);
    this.#place(tile, row * this.#step, column * this.#step);
  }

  #place(tile: CodedTile, top: number, left: number): void {
    // What the next tiles overlap is written again by them.
    const [, width, channels] = this.#shape;
    const line = tile.width * channels;
    for (let y = 0; y < tile.height; y++) {
      const values = tile.data.subarray(y * line, (y + 1) * line);
      this.result.set(values, ((top + y) * width + left) * channels);
    }
  }
}

/** Makes the upper rows of a tile go over from the lower ones of the tile above. */
function blendDown(above: CodedTile, tile: CodedTile, most: number, channels: number): void {
  const extent = Math.min(above.height, tile.height, most);
  const line = tile.width * channels;
  for (let y = 0; y < extent; y++) {
    const share = y / extent;
    const from = (above.height - extent + y) * above.width * channels;
    for (let i = 0; i < line; i++) {
      const at = y * line + i;
      tile.data[at] = above.data[from + i]! * (1 - share) + tile.data[at]! * share;
    }
  }
}

/** Makes the first columns of a tile go over from the last ones of the tile on its left. */
function blendRight(left: CodedTile, tile: CodedTile, most: number, channels: number): void {
  const extent = Math.min(left.width, tile.width, most);
  for (let y = 0; y < Math.min(left.height, tile.height); y++) {
    for (let x = 0; x < extent; x++) {
      const share = x / extent;
      const from = (y * left.width + left.width - extent + x) * channels;
      const at = (y * tile.width + x) * channels;
      for (let c = 0; c < channels; c++) {
        tile.data[at + c] = left.data[from + c]! * (1 - share) + tile.data[at + c]! * share;
      }
    }
  }
}

/**
 * Sides of tiles to try, in latents, the largest first: what does not fit the memory in one piece may in tiles.
 *
 * @param height of the latents
 * @param smallest side that still gives good images
 */
export function tileSides(height: number, width: number, smallest = 32): number[] {
  const longest = Math.max(height, width);
  const sides: number[] = [longest];
  for (let side = 128; side >= smallest; side /= 2) {
    if (side < longest) sides.push(side);
  }
  return sides;
}
