/**
 * Programs that code an image tile by tile: one for every size of tile, replayed for each of them, and the seams
 * blended on this side. An image in one piece is a single tile.
 */
import {
  type Call,
  gather,
  type Graph,
  type Program,
  type Resident,
  type Tensor,
  u32,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { DecodeOptions, Decoder } from "../pipeline/decoding.ts";
import type { Work } from "../pipeline/work.ts";
import { type Tile, TileBlender, tilesOf } from "./tiling.ts";

/** What is coded, and how. */
export interface TiledCoding {
  /** Names the programs. */
  readonly name: string;
  /** Size of the input. */
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  /** Side of a tile, in positions of the input. */
  readonly side: number;
  /** Result positions for one of the input: 8 for a decoder, 1/8 for an encoder. */
  readonly scale: number;
  /** Codes a part: [1, height, width, channels] to [1, height·scale, width·scale, channels of the result]. */
  readonly trace: (graph: Graph, part: Tensor) => Tensor;
}

type TileProgram = Program<Record<never, never>, Tensor>;

/** See the file comment. */
export class TiledCoder implements Decoder {
  /** The whole input, [height, width, channels]. */
  readonly input: Resident;
  /** How many tiles there are. */
  readonly count: number;
  readonly #coding: TiledCoding;
  readonly #tiles: readonly Tile[];
  readonly #programs = new Map<string, TileProgram>();

  /** Traces the programs; allocates nothing. */
  constructor(stage: Stage, coding: TiledCoding) {
    const { name, height, width, channels, side } = coding;
    this.#coding = coding;
    this.#tiles = tilesOf(height, width, side);
    this.count = this.#tiles.length;
    stage.repeats = Math.max(stage.repeats, this.count);
    this.input = stage.tensor(`${name} input`, [height, width, channels]);
    for (const tile of this.#tiles) {
      const key = keyOf(tile);
      if (this.#programs.has(key)) continue;
      const [rows, columns] = [tile.rows.size, tile.columns.size];
      const inputs = {
        whole: this.input,
        positions: this.count > 1 ? u32(rows, columns) : undefined,
      };
      const program = stage.program(`${name} ${key}`, inputs, ({ whole, positions }, graph) => {
        const part = positions ? gather(whole.reshape(height * width, -1), positions) : whole;
        return coding.trace(graph, part.reshape(1, rows, columns, -1));
      });
      stage.willRead(program.outputs);
      this.#programs.set(key, program as unknown as TileProgram);
    }
  }

  /** What the programs give for a tile, each read back by itself. */
  get results(): Resident[] {
    return [...this.#programs.values()].map(({ outputs }) => outputs);
  }

  /** Codes what `input` holds; the result, [height, width, channels], comes with the last tile. */
  async run(
    work: Pick<Work, "run">,
    { first = [], reads = [], begin, received }: DecodeOptions,
  ): Promise<void> {
    const { height, width, side, scale } = this.#coding;
    const channels = this.results[0]!.shape.at(-1)!;
    const blender = new TileBlender([height * scale, width * scale, channels], side * scale);
    for (const [i, tile] of this.#tiles.entries()) {
      const program = this.#programs.get(keyOf(tile))!;
      const positions = this.count > 1 ? { positions: this.#positions(tile) } : {};
      const before: Call[] = i === 0 ? [{ write: () => begin?.() }, ...first] : [];
      await work.run([...before, program.call(positions)], {
        reads: [...i === 0 ? reads : [], program.outputs],
        finished: (contents) => {
          const [, rows, columns] = program.outputs.shape as [number, number, number];
          const data = contents.at(-1)!;
          const isLast = i + 1 === this.count;
          if (this.count > 1) blender.add(tile, [rows, columns], data);
          const result = this.count > 1 ? blender.result : data;
          received(i + 1, isLast ? result : undefined, contents.slice(0, -1));
        },
      });
    }
  }

  #positions({ rows, columns }: Tile): Uint32Array {
    const positions = new Uint32Array(rows.size * columns.size);
    for (let y = 0; y < rows.size; y++) {
      for (let x = 0; x < columns.size; x++) {
        positions[y * columns.size + x] = (rows.start + y) * this.#coding.width + columns.start + x;
      }
    }
    return positions;
  }
}

function keyOf({ rows, columns }: Tile): string {
  return `${columns.size}x${rows.size}`;
}
