/** The frame between two, in overlapping tiles; the CPU cuts and blends them, so that the GPU holds one tile at a time. */
import type { DeviceTensor, Program, WeightScope } from "../../runtime/mod.ts";
import { addTile, scaleTile, type Span, type Tile, tilesOf } from "../autoencoders/tiling.ts";
import type { Stage } from "../memory/session.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import { CONVOLUTIONS, type FrameInterpolatorConfig, frameUnit, middleFrame } from "./ifnet.ts";

/**
 * Units that neighbours share at least. The coarsest block sees one position per unit, and its convolutions of 3 x 3 reach one
 * position further each: this is how far the motion goes that it can find, and beyond it a tile's edge does not change its
 * guess. Finer blocks reach half as far and less.
 */
const OVERLAP = CONVOLUTIONS;

/** Units at an edge inside the frame that are not used: a shorter motion brings nothing from beyond the edge. */
const GUARD = OVERLAP / 4;

interface InterpolatedSize {
  readonly height: number;
  readonly width: number;
  /** 0.5 finds larger motion in large frames. */
  readonly scale: number;
  /** Longest side of a tile, in pixels; it is raised to what the network needs. */
  readonly tileSide: number;
}

export class TiledInterpolator {
  readonly count: number;
  readonly #whole: Tile;
  readonly #padded: Tile;
  /** What the network sees, and the part of it that is used. */
  readonly #tiles: readonly { readonly seen: Tile; readonly used: Tile }[];
  readonly #frames: readonly [DeviceTensor, DeviceTensor];
  readonly #program: Program<Record<never, never>, DeviceTensor>;

  constructor(
    stage: Stage,
    config: FrameInterpolatorConfig,
    weights: WeightScope,
    { height, width, scale, tileSide }: InterpolatedSize,
  ) {
    const unit = frameUnit(config, scale);
    const [unitsDown, unitsRight] = [Math.ceil(height / unit), Math.ceil(width / unit)];
    const side = Math.max(2 * OVERLAP, Math.ceil(tileSide / unit));
    // Tiles begin at whole units: every block then samples the positions that it samples in the whole frame.
    this.#tiles = tilesOf(unitsDown, unitsRight, side, OVERLAP)
      .map((tile) => ({ seen: scaleTile(tile, unit), used: scaleTile(guarded(tile), unit) }));
    this.count = this.#tiles.length;
    this.#whole = { rows: spanOf(height), columns: spanOf(width) };
    this.#padded = { rows: spanOf(unitsDown * unit), columns: spanOf(unitsRight * unit) };
    stage.repeats = Math.max(stage.repeats, this.count);
    const { rows, columns } = this.#tiles[0]!.seen;
    const shape = [1, rows.size, columns.size, 3];
    const [first, second] = [
      stage.tensor("first frame", shape),
      stage.tensor("second frame", shape),
    ];
    this.#frames = [first, second];
    this.#program = stage.program(
      "between",
      { first, second },
      ({ first, second }, graph) => middleFrame(graph, config, weights, first, second, scale),
    );
    stage.willRead(this.#program.outputs);
  }

  /** The frame in the middle of two, all [height, width, 3], not clamped; it comes with the last tile. */
  async run(
    queue: Pick<StageQueue, "run">,
    frames: readonly [Float32Array, Float32Array],
    received: (middle: Float32Array) => void,
  ): Promise<void> {
    const { rows, columns } = this.#padded;
    const isTiled = this.count > 1;
    const data = new Float32Array(isTiled ? rows.size * columns.size * 3 : 0);
    for (const [i, { seen, used }] of this.#tiles.entries()) {
      const write = () =>
        this.#frames.forEach((tensor, i) => tensor.write(cut(frames[i]!, this.#whole, seen)));
      await queue.run([{ written: this.#frames, write }, this.#program.call({})], {
        reads: [this.#program.outputs],
        finished: ([values]) => {
          if (isTiled) addTile({ data, width: columns.size }, used, cut(values!, seen, used));
          if (i + 1 < this.count) return;
          received(cut(isTiled ? data : values!, this.#padded, this.#whole));
        },
      });
    }
  }
}

function spanOf(size: number): Span {
  return { start: 0, size, before: 0, after: 0 };
}

function guarded({ rows, columns }: Tile): Tile {
  const inner = ({ start, size, before, after }: Span): Span => {
    const [first, last] = [before > 0 ? GUARD : 0, after > 0 ? GUARD : 0];
    return {
      start: start + first,
      size: size - first - last,
      before: before - 2 * first,
      after: after - 2 * last,
    };
  };
  return { rows: inner(rows), columns: inner(columns) };
}

/** A part of an image, [height, width, 3]; what lies below or right of the image is zero. */
function cut(image: Float32Array, whole: Tile, part: Tile): Float32Array {
  const [height, width] = [whole.rows.size, whole.columns.size];
  const { rows, columns } = part;
  if (rows.size === height && columns.size === width) return image;
  const [top, left] = [rows.start - whole.rows.start, columns.start - whole.columns.start];
  const result = new Float32Array(rows.size * columns.size * 3);
  const count = Math.min(columns.size, width - left);
  for (let y = 0; y < Math.min(rows.size, height - top); y++) {
    const from = ((top + y) * width + left) * 3;
    result.set(image.subarray(from, from + count * 3), y * columns.size * 3);
  }
  return result;
}
