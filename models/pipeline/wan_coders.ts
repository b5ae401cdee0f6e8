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
import type { Decoder, TiledSize } from "../autoencoders/tiled_coder.ts";
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

/** From latents in the autoencoder's units, [frames, height, width, channels], to frames, tile by tile. */
export function wanVideoDecoder(
  { config, weights }: WanVae,
  { frames, height, width, tileSide }: VideoSize,
): (stage: Stage, name: string) => Decoder {
  const tiles = tilesOf(height, width, tileSide);
  const { rows, columns } = tiles[0]!;
  const scale = config.scale_factor_spatial;
  const frameSize = height * width * scale ** 2 * 3;
  const addFrames = (all: Float32Array, tile: Tile, values: Float32Array): void => {
    const count = all.length / frameSize;
    const size = values.length / count;
    for (let i = 0; i < count; i++) {
      const data = all.subarray(i * frameSize, (i + 1) * frameSize);
      const part = values.subarray(i * size, (i + 1) * size);
      addTile({ data, width: width * scale }, scaleTile(tile, scale), part);
    }
  };
  return (stage, name) => {
    const history = new FrameHistory((...spec) => stage.tensor(...spec));
    const input = stage.tensor(`${name} input`, [frames, height, width, config.z_dim]);
    const count = frames * tiles.length;
    stage.repeats = Math.max(stage.repeats, count);
    const inputs = { latents: input, positions: u32(1, 1, rows.size, columns.size) };
    const { first: image, next } = traceChunks(frames, (place) =>
      stage.program(
        `${name} ${place === "next" ? place : "first"}`,
        inputs,
        ({ latents, positions }, graph) => {
          const part = gather(latents.reshape(-1, config.z_dim), positions);
          return wanDecoder(graph, config, weights.root, part, { place, history });
        },
      ));
    for (const program of next ? [image, next] : [image]) stage.willRead(program.outputs);
    return {
      input,
      count,
      firstResult: image.outputs,
      async run(work, { first = [], reads = [], begin, received }) {
        const chunks: Float32Array<ArrayBuffer>[] = [];
        let done = 0;
        for (const [t, tile] of tiles.entries()) {
          const isLastTile = t === tiles.length - 1;
          const corner = tilePositions(tile, width);
          for (let i = 0; i < frames; i++) {
            const isFirst = t === 0 && i === 0;
            const before: Call[] = i === 0 ? [clearing(history.tensors)] : [];
            if (isFirst) before.push({ write: () => begin?.() }, ...first);
            const program = i === 0 ? image : next ?? image;
            const positions = corner.map((position) => position + i * height * width);
            await work.run([...before, program.call({ positions })], {
              reads: [...isFirst ? reads : [], program.outputs],
              finished: (contents) => {
                let pixels = contents.at(-1)!;
                if (tiles.length > 1) {
                  const [, length] = program.outputs.shape as [number, number];
                  pixels = chunks[i] ??= new Float32Array(length * frameSize);
                  addFrames(pixels, tile, contents.at(-1)!);
                }
                received(++done, isLastTile ? pixels : undefined, contents.slice(0, -1));
                if (isLastTile) delete chunks[i];
              },
            });
          }
        }
      },
    };
  };
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

export interface WanVideoEncoder {
  readonly stage: Stage;
  /** Normalised, [frames, height, width, channels]; complete when `run` is. */
  readonly latents: DeviceTensor;
  /** Encodes a video, or an image; the last frame stands still if there are too few. */
  run(work: Work, video: VideoFrames): Promise<void>;
}

export function traceVideoEncoder(
  session: Session,
  vae: WanVae,
  { frames, height, width, tileSide }: VideoSize,
  { name = "encode", runs = 1 }: { readonly name?: string; readonly runs?: number } = {},
): WanVideoEncoder {
  const { scale_factor_spatial: scale, scale_factor_temporal: temporal, z_dim } = vae.config;
  const tiles = tilesOf(height, width, tileSide);
  const { rows, columns } = scaleTile(tiles[0]!, scale);
  const count = frames * tiles.length;
  const stage = session.stage("encode", { name, repeats: count * runs });
  session.encodeSteps += count * runs;
  const history = new FrameHistory((...spec) => stage.tensor(...spec));
  const latents = stage.tensor("video latents", [frames, height, width, z_dim]);
  const { first: image, next = image } = traceChunks(frames, (place) => {
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
  return {
    stage,
    latents,
    async run(work, video) {
      for (const [t, tile] of tiles.entries()) {
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
            ...i === 0 ? history.tensors : [],
            ...t === 0 && i === 0 ? [latents] : [],
          ];
          await work.run([
            ...cleared.length > 0 ? [clearing(cleared)] : [],
            program.call({ pixels, chunk, positions, shares }),
          ], { finished: () => work.encodeDone() });
        }
      }
    },
  };
}

/** Where in a tile each position of the whole lies, and how much of it counts there: nothing outside the tile. */
export function placesOf(
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
export function toPixels(
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
