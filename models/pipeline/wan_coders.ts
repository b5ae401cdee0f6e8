/** Wan's autoencoder for videos, one latent frame at a time, maybe in tiles; what convolutions saw before stays on the device. */
import {
  type Call,
  clearing,
  copyTo,
  type DeviceTensor,
  elementwise,
  f32,
  gather,
  type Graph,
  type Program,
  slice,
  type Tensor,
  u32,
  type Weights,
} from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { toSignedRange } from "./pixels.ts";
import { type TinyDecoder, tinyVideoDecoder } from "./tiny_coders.ts";
import type { Work } from "./work.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import type { DecodeOptions, Decoder, TiledSize } from "../autoencoders/tiled_coder.ts";
import {
  addTile,
  scaleTile,
  seamShares,
  type Tile,
  tilePositions,
  tilesOf,
} from "../autoencoders/tiling.ts";
import type { Stream } from "../autoencoders/wan/blocks.ts";
import type { WanVaeConfig } from "../autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../autoencoders/wan/coder.ts";
import { type ChunkPlace, FrameHistory } from "../autoencoders/wan/history.ts";

interface WanVae {
  readonly config: WanVaeConfig;
  readonly weights: Weights;
}

export interface VideoSize extends TiledSize {
  readonly frames: number;
}

/** Latents, channels last, in the transformer's units: normalised. */
export function scaleLatents({ config }: Pick<WanVae, "config">, latents: Tensor): Tensor {
  return elementwise("(m - center) / spread", {
    m: latents,
    ...latentScale(latents.graph, config),
  });
}

/** Normalised latents, channels last, in the autoencoder's own units. */
export function unscaleLatents({ config }: Pick<WanVae, "config">, latents: Tensor): Tensor {
  const x = latents;
  return elementwise("x * spread + center", { x, ...latentScale(x.graph, config) });
}

function latentScale(
  graph: Graph,
  { z_dim, latents_mean, latents_std }: WanVaeConfig,
): { center: Tensor; spread: Tensor } {
  return {
    center: graph.constant("latents mean", [z_dim], "f32", latents_mean),
    spread: graph.constant("latents std", [z_dim], "f32", latents_std),
  };
}

interface Chunks<Values, Outputs = unknown> {
  readonly first: Program<Values, Outputs>;
  readonly next: Program<Values, Outputs> | undefined;
}

function traceChunks<Values, Outputs>(
  frames: number,
  trace: (place: ChunkPlace) => Program<Values, Outputs>,
): Chunks<Values, Outputs> {
  return frames === 1
    ? { first: trace("only"), next: undefined }
    : { first: trace("first"), next: trace("next") };
}

/** Traces the way from latents in the autoencoder's units, [frames, height, width, channels], to frames. */
export function wanVideoDecoder(
  vae: WanVae,
  size: VideoSize,
): (stage: Stage, name: string) => WanVideoDecoder {
  return (stage, name) => new WanVideoDecoder(stage, vae, size, name);
}

/** Traces the way from normalised latents to frames, by the tiny decoder if there is one and it is wanted. */
export function wanFrames(
  { vae, tinyDecoder }: { readonly vae: WanVae; readonly tinyDecoder?: TinyDecoder | undefined },
  size: VideoSize,
  isTiny = true,
): {
  readonly decoder: (stage: Stage, name: string) => Decoder;
  /** What the decoder takes of normalised latents, which tiny decoders take as they are. */
  readonly scaled: (latents: Tensor) => Tensor;
} {
  return isTiny && tinyDecoder
    ? { decoder: tinyVideoDecoder(tinyDecoder, size), scaled: (x) => x }
    : { decoder: wanVideoDecoder(vae, size), scaled: (x) => unscaleLatents(vae, x) };
}

export class WanVideoDecoder implements Decoder {
  readonly input: DeviceTensor;
  readonly count: number;
  readonly #size: VideoSize;
  readonly #scale: number;
  readonly #tiles: readonly Tile[];
  readonly #history: FrameHistory;
  readonly #chunks: Chunks<{ readonly positions: ArrayLike<number> }, DeviceTensor>;

  constructor(stage: Stage, { config, weights }: WanVae, size: VideoSize, name: string) {
    const { frames, height, width, tileSide } = size;
    const tiles = tilesOf(height, width, tileSide);
    const { rows, columns } = tiles[0]!;
    const history = new FrameHistory((...spec) => stage.tensor(...spec));
    this.input = stage.tensor(`${name} input`, [frames, height, width, config.z_dim]);
    this.count = frames * tiles.length;
    stage.repeats = Math.max(stage.repeats, this.count);
    this.#size = size;
    this.#scale = config.scale_factor_spatial;
    this.#tiles = tiles;
    this.#history = history;
    const inputs = { latents: this.input, positions: u32(1, 1, rows.size, columns.size) };
    this.#chunks = traceChunks(frames, (place) =>
      stage.program(
        `${name} ${place === "next" ? place : "first"}`,
        inputs,
        ({ latents, positions }, graph) => {
          const part = gather(latents.reshape(-1, config.z_dim), positions);
          return wanDecoder(graph, config, weights.root, part, { place, history });
        },
      ));
    const { first, next } = this.#chunks;
    for (const program of next ? [first, next] : [first]) stage.willRead(program.outputs);
  }

  get firstResult(): DeviceTensor {
    return this.#chunks.first.outputs;
  }

  /** Decodes tile by tile; frames are complete with the last one. */
  async run(
    work: Pick<StageQueue, "run">,
    { first = [], reads = [], begin, received }: DecodeOptions,
  ): Promise<void> {
    const { frames, height, width } = this.#size;
    const { first: image, next = image } = this.#chunks;
    const chunks: Float32Array<ArrayBuffer>[] = [];
    let done = 0;
    for (const [t, tile] of this.#tiles.entries()) {
      const isLastTile = t === this.#tiles.length - 1;
      const corner = tilePositions(tile, width);
      for (let i = 0; i < frames; i++) {
        const isFirst = t === 0 && i === 0;
        const before: Call[] = i === 0 ? [clearing(this.#history.tensors)] : [];
        if (isFirst) before.push({ write: () => begin?.() }, ...first);
        const program = i === 0 ? image : next;
        const positions = corner.map((position) => position + i * height * width);
        await work.run([...before, program.call({ positions })], {
          reads: [...isFirst ? reads : [], program.outputs],
          finished: (contents) => {
            let pixels = contents.at(-1)!;
            if (this.#tiles.length > 1) {
              const [, length] = program.outputs.shape as [number, number];
              pixels = chunks[i] ??= new Float32Array(length * this.#frameSize);
              this.#addTile(pixels, tile, contents.at(-1)!);
            }
            received(++done, isLastTile ? pixels : undefined, contents.slice(0, -1));
            if (isLastTile) delete chunks[i];
          },
        });
      }
    }
  }

  get #frameSize(): number {
    return this.#size.height * this.#size.width * this.#scale ** 2 * 3;
  }

  #addTile(frames: Float32Array, tile: Tile, values: Float32Array): void {
    const count = frames.length / this.#frameSize;
    const size = values.length / count;
    for (let i = 0; i < count; i++) {
      const whole = {
        data: frames.subarray(i * this.#frameSize, (i + 1) * this.#frameSize),
        width: this.#size.width * this.#scale,
      };
      addTile(whole, scaleTile(tile, this.#scale), values.subarray(i * size, (i + 1) * size));
    }
  }
}

/** The mean of what the encoder gives for frames in [-1, 1], normalised: [1, 1, height, width, channels]. */
function encode(
  graph: Graph,
  { config, weights }: WanVae,
  frames: Tensor,
  stream: Stream,
): Tensor {
  const moments = wanEncoder(graph, config, weights.root, frames, stream);
  return scaleLatents({ config }, slice(moments, -1, 0, config.z_dim));
}

/** The frames of a video, at least one, each RGB: bytes, numbers in [-1, 1], or nothing where all of it is 0. */
export interface VideoFrames {
  readonly length: number;
  at(index: number): Uint8Array | Float32Array | undefined;
}

/** Encodes the frames of a video, or an image, to normalised latents, [frames, height, width, channels]. */
export class WanVideoEncoder {
  readonly stage: Stage;
  /** Complete when {@linkcode WanVideoEncoder.run} is. */
  readonly latents: DeviceTensor;
  readonly #size: VideoSize;
  readonly #config: WanVaeConfig;
  readonly #tiles: readonly Tile[];
  readonly #history: FrameHistory;
  readonly #chunks: Chunks<
    Readonly<Record<"pixels" | "chunk" | "positions" | "shares", ArrayLike<number>>>
  >;

  constructor(
    session: Session,
    vae: WanVae,
    size: VideoSize,
    { name = "encode", runs = 1 }: { readonly name?: string; readonly runs?: number } = {},
  ) {
    const { frames, height, width, tileSide } = size;
    const { scale_factor_spatial: scale, scale_factor_temporal: temporal, z_dim } = vae.config;
    const tiles = tilesOf(height, width, tileSide);
    const { rows, columns } = scaleTile(tiles[0]!, scale);
    const count = frames * tiles.length;
    const stage = session.stage("encode", { name, repeats: count * runs });
    session.encodeSteps += count * runs;
    const history = new FrameHistory((...spec) => stage.tensor(...spec));
    const latents = stage.tensor("video latents", [frames, height, width, z_dim]);
    this.stage = stage;
    this.latents = latents;
    this.#size = size;
    this.#config = vae.config;
    this.#tiles = tiles;
    this.#history = history;
    this.#chunks = traceChunks(frames, (place) => {
      const length = place === "next" ? temporal : 1;
      const inputs = {
        pixels: f32(1, length, rows.size, columns.size, 3),
        // Which latent frame it is, where its positions come from, and how much each counts: nothing outside its tile.
        chunk: f32(frames, 1, 1, 1),
        positions: u32(1, height, width),
        shares: f32(1, height, width, 1),
        latents,
      };
      return stage.program(
        `encode ${place === "next" ? place : "first"}`,
        inputs,
        ({ pixels, chunk, positions, shares, latents: sum }, graph) => {
          const part = encode(graph, vae, pixels, { place, history });
          const x = gather(part.reshape(-1, z_dim), positions);
          copyTo(elementwise("sum + chunk * shares * x", { sum, chunk, shares, x }), latents);
        },
      );
    });
  }

  async run(work: Work, video: VideoFrames): Promise<void> {
    const { frames, height, width } = this.#size;
    const { scale_factor_spatial: scale, scale_factor_temporal: temporal } = this.#config;
    const { first: image, next = image } = this.#chunks;
    for (const [t, tile] of this.#tiles.entries()) {
      const { positions, shares } = placesOf(tile, height, width);
      for (let i = 0; i < frames; i++) {
        const first = i === 0 ? 0 : 1 + (i - 1) * temporal;
        const length = i === 0 ? 1 : temporal;
        const seen = Array.from(
          { length },
          (_, k) => video.at(Math.min(first + k, video.length - 1)),
        );
        const pixels = toPixels(seen, scaleTile(tile, scale), width * scale);
        const chunk = Array.from({ length: frames }, (_, k) => Number(k === i));
        const program = i === 0 ? image : next;
        const cleared = [
          ...i === 0 ? this.#history.tensors : [],
          ...t === 0 && i === 0 ? [this.latents] : [],
        ];
        await work.run([
          ...cleared.length > 0 ? [clearing(cleared)] : [],
          program.call({ pixels, chunk, positions, shares }),
        ], { finished: () => work.encodeDone() });
      }
    }
  }
}

function placesOf(
  tile: Tile,
  height: number,
  width: number,
): { positions: Uint32Array; shares: Float32Array } {
  const positions = new Uint32Array(height * width);
  const shares = new Float32Array(height * width);
  const [down, right] = [seamShares(tile.rows), seamShares(tile.columns)];
  tilePositions(tile, width).forEach((position, i) => {
    positions[position] = i;
    shares[position] = down[Math.floor(i / right.length)]! * right[i % right.length]!;
  });
  return { positions, shares };
}

/** A tile of several frames of `width` pixels, one after the other, in [-1, 1]. */
function toPixels(
  frames: readonly ReturnType<VideoFrames["at"]>[],
  { rows, columns }: Tile,
  width: number,
): Float32Array {
  const line = columns.size * 3;
  const pixels = new Float32Array(frames.length * rows.size * line);
  let to = 0;
  for (const frame of frames) {
    for (let y = rows.start; y < rows.start + rows.size; y++) {
      const from = (y * width + columns.start) * 3;
      const row = frame?.subarray(from, from + line);
      if (row) pixels.set(row instanceof Uint8Array ? toSignedRange(row) : row, to);
      to += line;
    }
  }
  return pixels;
}
