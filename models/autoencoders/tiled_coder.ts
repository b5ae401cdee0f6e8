/**
 * Programs that code a picture tile by tile: one for every size of tile, replayed for each of them, and the seams
 * blended on this side. A picture in one piece is a single tile.
 */
import {
  copyTo,
  gather,
  Graph,
  type Program,
  Resident,
  type Run,
  type Target,
  type Tensor,
} from "../../runtime/mod.ts";
import { type Tile, TileBlender, tilesOf } from "./tiling.ts";

/** What is coded, and how. */
export interface TiledCoding {
  /** Names the programs. */
  readonly name: string;
  /** Side of a tile, in positions of the input. */
  readonly side: number;
  /** Result positions for one of the input: 8 for a decoder, 1/8 for an encoder. */
  readonly scale: number;
  /** The whole input, [height, width, channels], in a graph. */
  readonly input: (graph: Graph) => Tensor;
  /** Codes a part: [1, height, width, channels] to [1, height·scale, width·scale, channels of the result]. */
  readonly trace: (graph: Graph, part: Tensor) => Tensor;
}

interface TileProgram {
  readonly name: string;
  /** u32 [rows, columns]: the positions of the input that the tile has; none where it is the whole. */
  readonly positions: Resident | undefined;
  /** The result, [1, height, width, channels]. */
  readonly result: Resident;
}

/** See the file comment. */
export class TiledCoder {
  /** By name; to be planned with the other programs of their session. */
  readonly graphs: Readonly<Record<string, Graph>>;
  /** Inputs and results of the programs; their owner allocates them. */
  readonly residents: readonly Resident[];
  /** How many tiles there are, which is how many runs. */
  readonly tileCount: number;
  readonly #coding: TiledCoding;
  readonly #tiles: readonly Tile[];
  readonly #width: number;
  readonly #programs: ReadonlyMap<string, TileProgram>;
  readonly #shape: readonly [number, number, number];

  /** Traces the programs; allocates nothing. */
  constructor(coding: TiledCoding, [height, width]: readonly [number, number], target: Target) {
    this.#coding = coding;
    this.#width = width;
    this.#tiles = tilesOf(height, width, coding.side);
    this.tileCount = this.#tiles.length;
    const graphs: Record<string, Graph> = {};
    const programs = new Map<string, TileProgram>();
    for (const tile of this.#tiles) {
      const key = keyOf(tile);
      if (programs.has(key)) continue;
      const name = `${coding.name} ${key}`;
      const graph = new Graph(name, target);
      const whole = coding.input(graph);
      const [rows, columns] = [tile.rows.size, tile.columns.size];
      const positions = this.tileCount === 1
        ? undefined
        : new Resident(`${name} positions`, [rows, columns], "u32");
      const part = positions
        ? gather(whole.reshape(height * width, -1), graph.use(positions))
        : whole;
      const coded = coding.trace(graph, part.reshape(1, rows, columns, -1));
      const result = new Resident(`${name} result`, coded.shape);
      copyTo(coded, result);
      graphs[name] = graph;
      programs.set(key, { name, positions, result });
    }
    this.graphs = graphs;
    this.#programs = programs;
    this.residents = [...programs.values()].flatMap(({ positions, result }) =>
      positions ? [positions, result] : [result]
    );
    const channels = this.residents.at(-1)!.shape.at(-1)!;
    this.#shape = [height * coding.scale, width * coding.scale, channels];
  }

  /** What the programs give for a tile, each read back by itself. */
  get results(): Resident[] {
    return [...this.#programs.values()].map(({ result }) => result);
  }

  /**
   * The runs that code everything.
   *
   * @param programOf the instantiated program of a graph
   * @param finished told after every tile how many are done; with the result, [height, width, channels], after the last
   * @param before right before the first tile: the place to write the input
   */
  *runs(
    programOf: (name: string) => Program,
    finished: (done: number, result?: Float32Array<ArrayBuffer>) => void,
    before?: () => void,
  ): Generator<Run> {
    const { side, scale, name } = this.#coding;
    const blender = new TileBlender(this.#shape, side * scale);
    for (const [i, tile] of this.#tiles.entries()) {
      const program = this.#programs.get(keyOf(tile))!;
      yield {
        programs: [programOf(program.name)],
        stage: name,
        before: () => {
          if (i === 0) before?.();
          program.positions?.write(this.#positions(tile));
        },
        reads: [program.result],
        finished: ([data]) => {
          const [, height, width] = program.result.shape as [number, number, number];
          if (this.tileCount === 1) return finished(1, data);
          blender.add(tile, [height, width], data!);
          finished(i + 1, i + 1 === this.tileCount ? blender.result : undefined);
        },
      };
    }
  }

  #positions({ rows, columns }: Tile): Uint32Array {
    const positions = new Uint32Array(rows.size * columns.size);
    for (let y = 0; y < rows.size; y++) {
      for (let x = 0; x < columns.size; x++) {
        positions[y * columns.size + x] = (rows.start + y) * this.#width + columns.start + x;
      }
    }
    return positions;
  }
}

function keyOf({ rows, columns }: Tile): string {
  return `${columns.size}x${rows.size}`;
}
