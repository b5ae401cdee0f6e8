/** Tiles that overlap, with blended seams, as diffusers' `enable_tiling`; all have one size, so that one program codes them. */
/** Part of the longest side of a tile that neighbours share at least. */
const OVERLAP = 0.25;

export interface Span {
  readonly start: number;
  readonly size: number;
  /** Positions at its beginning that the span before has too. */
  readonly before: number;
  /** Positions at its end that the next span has too. */
  readonly after: number;
}

export interface Tile {
  readonly rows: Span;
  readonly columns: Span;
}

/** As few tiles as cover an image, row by row, of one size, as small as it can be, up to `side`, at least 4. */
export function tilesOf(height: number, width: number, side: number, overlap?: number): Tile[] {
  const columns = spansOf(width, side, overlap);
  return spansOf(height, side, overlap)
    .flatMap((rows) => columns.map((columns) => ({ rows, columns })));
}

/** As few spans as cover a length, of one size up to `side`; neighbours share `overlap` positions at least. */
export function spansOf(
  length: number,
  side: number,
  overlap: number = Math.floor(side * OVERLAP),
): Span[] {
  if (length <= side) return [{ start: 0, size: length, before: 0, after: 0 }];
  const count = Math.ceil((length - overlap) / (side - overlap));
  const size = Math.ceil((length + (count - 1) * overlap) / count);
  const starts = Array.from(
    { length: count },
    (_, i) => Math.floor(i * (length - size) / (count - 1)),
  );
  return starts.map((start, i) => ({
    start,
    size,
    before: i === 0 ? 0 : starts[i - 1]! + size - start,
    after: i === count - 1 ? 0 : start + size - starts[i + 1]!,
  }));
}

/** The tile where there are `factor` positions for one. */
export function scaleTile({ rows, columns }: Tile, factor: number): Tile {
  const scaled = ({ start, size, before, after }: Span): Span => ({
    start: start * factor,
    size: size * factor,
    before: before * factor,
    after: after * factor,
  });
  return { rows: scaled(rows), columns: scaled(columns) };
}

/** Indices of a tile's positions in a whole of `width` columns, row by row. */
export function tilePositions({ rows, columns }: Tile, width: number): Uint32Array {
  return Uint32Array.from({ length: rows.size * columns.size }, (_, i) => {
    const row = rows.start + Math.floor(i / columns.size);
    return row * width + columns.start + i % columns.size;
  });
}

/** Shares that a span's positions have in the whole: seams go over from one to the next in a straight line. */
export function seamShares({ size, before, after }: Span): Float64Array {
  return Float64Array.from(
    { length: size },
    (_, i) => Math.min(1, (i + 0.5) / before, (size - i - 0.5) / after),
  );
}

/** Adds a tile, [rows, columns, channels], by its share to `whole`, zeros at first, [height, width, channels]; in time, too. */
export function addTile(
  whole: { readonly data: Float32Array; readonly width: number },
  { rows, columns }: Tile,
  values: Float32Array,
  inTime = 1,
): void {
  const channels = values.length / (rows.size * columns.size);
  const down = seamShares(rows);
  const right = seamShares(columns);
  let from = 0;
  for (let y = 0; y < rows.size; y++) {
    let to = ((rows.start + y) * whole.width + columns.start) * channels;
    for (let x = 0; x < columns.size; x++) {
      const share = down[y]! * right[x]! * inTime;
      for (let c = 0; c < channels; c++) whole.data[to++]! += share * values[from++]!;
    }
  }
}

/** Sides of tiles to try, in latents, the largest first: what does not fit the memory in one piece may in tiles. */
export function tileSides(longest: number, smallest = 32): number[] {
  const sides: number[] = [longest];
  for (let side = 4 * smallest; side >= smallest; side /= 2) {
    if (side < longest) sides.push(side);
  }
  return sides;
}
