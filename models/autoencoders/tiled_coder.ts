/** A program that codes an image tile by tile; seams are blended on the CPU. An image in one piece is a single tile. */
import {
  type Call,
  type DeviceTensor,
  gather,
  type Graph,
  type Program,
  type Target,
  type Tensor,
  u32,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import { addTile, scaleTile, type Tile, tilePositions, tilesOf } from "./tiling.ts";

export interface DecodeOptions {
  readonly first?: readonly Call[];
  readonly reads?: readonly DeviceTensor[];
  readonly begin?: () => unknown;
  /** `pixels` [frames, height, width, 3 or 4] are complete frames, if a piece completes any; `contents` are those of `reads`. */
  readonly received: (
    done: number,
    pixels: Float32Array | undefined,
    contents: readonly Float32Array[],
  ) => void;
}

/** An autoencoder's way back to pixels, piece by piece: tiles of an image, or frames of a video. */
export interface Decoder {
  /** Latents in the autoencoder's own units. */
  readonly input: DeviceTensor;
  readonly count: number;
  readonly firstResult: DeviceTensor;
  run(work: Pick<StageQueue, "run">, options: DecodeOptions): Promise<void>;
}

export interface TiledSize {
  readonly height: number;
  readonly width: number;
  readonly tileSide: number;
}

interface TiledCoding extends TiledSize {
  readonly name: string;
  /** Positions of the input along each side, for one latent: 1 for a decoder. */
  readonly inputScale: number;
  /** Values along a side of the result for each of the input's latents: 1 for an encoder. */
  readonly resultScale: number;
  readonly channels: number;
  readonly operands?: Target["operands"] | undefined;
  /** Codes a part: [1, height, width, channels] to [1, height, width, channels of the result]. */
  readonly trace: (graph: Graph, part: Tensor) => Tensor;
}

/** An autoencoder of images, [1, height, width, channels]. */
export interface ImageCodec {
  /** Pixels along a side of a latent. */
  readonly scale: number;
  readonly latentChannels: number;
  /** Latents in the autoencoder's units to pixels, in [-1, 1]. */
  decode(graph: Graph, latents: Tensor): Tensor;
  /** Narrowest operands of its programs; the target's by default. */
  readonly operands?: Target["operands"] | undefined;
  /** Channels of the pixels that it encodes. */
  readonly channels: number;
  /** Pixels to moments: means, then log-variances. */
  encode(graph: Graph, pixels: Tensor): Tensor;
  /** Latents from the transformer's units to the autoencoder's, where images may be given so. */
  unscale?(latent: number, channel: number): number;
}

export type TraceCoder = (stage: Stage, name: string) => TiledCoder;

/** From latents to pixels, [height·s, width·s, channels], in tiles. */
export function tiledDecoder(
  { scale, latentChannels: channels, operands, decode }: Omit<ImageCodec, "channels" | "encode">,
  size: TiledSize,
): TraceCoder {
  const coding = { ...size, inputScale: 1, resultScale: scale, channels, operands, trace: decode };
  return (stage, name) => new TiledCoder(stage, { ...coding, name });
}

/** From pixels, [height·s, width·s, channels], to moments, in tiles. */
export function tiledEncoder(
  { scale, channels, operands, encode }: Omit<ImageCodec, "latentChannels" | "decode">,
  size: TiledSize,
): TraceCoder {
  const coding = { ...size, inputScale: scale, resultScale: 1, channels, operands, trace: encode };
  return (stage, name) => new TiledCoder(stage, { ...coding, name });
}

export class TiledCoder implements Decoder {
  /** The whole input, [height, width, channels]. */
  readonly input: DeviceTensor;
  readonly count: number;
  readonly #coding: TiledCoding;
  readonly #tiles: readonly Tile[];
  readonly #program: Program<{ readonly positions?: Uint32Array | undefined }, DeviceTensor>;

  constructor(stage: Stage, coding: TiledCoding) {
    const { name, channels, inputScale, tileSide, operands } = coding;
    const [height, width] = [coding.height * inputScale, coding.width * inputScale];
    this.#coding = coding;
    this.#tiles = tilesOf(coding.height, coding.width, tileSide);
    this.count = this.#tiles.length;
    stage.repeats = Math.max(stage.repeats, this.count);
    this.input = stage.tensor(`${name} input`, [height, width, channels]);
    const { rows, columns } = scaleTile(this.#tiles[0]!, inputScale);
    const inputs = {
      whole: this.input,
      positions: this.count > 1 ? u32(rows.size, columns.size) : undefined,
    };
    this.#program = stage.program(name, inputs, ({ whole, positions }, graph) => {
      const part = positions ? gather(whole.reshape(height * width, channels), positions) : whole;
      return coding.trace(graph, part.reshape(1, rows.size, columns.size, channels));
    }, { operands });
    stage.willRead(this.#program.outputs);
  }

  get firstResult(): DeviceTensor {
    return this.#program.outputs;
  }

  /** Codes what `input` holds; the result, [height, width, channels], comes with the last tile. */
  async run(
    work: Pick<StageQueue, "run">,
    { first = [], reads = [], begin, received }: DecodeOptions,
  ): Promise<void> {
    const { height, inputScale, resultScale } = this.#coding;
    const result = this.#program.outputs;
    const width = this.#coding.width * resultScale;
    const size = this.count > 1 ? height * resultScale * width * result.shape.at(-1)! : 0;
    const whole = { data: new Float32Array(size), width };
    for (const [i, tile] of this.#tiles.entries()) {
      const positions = this.count > 1
        ? tilePositions(scaleTile(tile, inputScale), this.#coding.width * inputScale)
        : undefined;
      const before: Call[] = i === 0 ? [{ write: () => begin?.() }, ...first] : [];
      await work.run([...before, this.#program.call({ positions })], {
        reads: [...i === 0 ? reads : [], result],
        finished: (contents) => {
          const values = contents.at(-1)!;
          if (this.count > 1) addTile(whole, scaleTile(tile, resultScale), values);
          const isLast = i + 1 === this.count;
          const all = this.count > 1 ? whole.data : values;
          received(i + 1, isLast ? all : undefined, contents.slice(0, -1));
        },
      });
    }
  }
}
