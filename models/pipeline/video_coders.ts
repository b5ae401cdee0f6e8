/** Autoencoders for videos, one latent frame at a time, maybe in tiles; what a chunk sees of those before stays on the device. */
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
  type Tensor,
  u32,
} from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { toSignedRange } from "./pixels.ts";
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
import { type ChunkPlace, FrameHistory } from "../autoencoders/wan/history.ts";

/** An autoencoder of videos, [1, frames, height, width, channels]: the first latent frame stands for one frame. */
export interface VideoCodec {
  /** Pixels along a side of a latent. */
  readonly scale: number;
  /** Frames of every latent frame but the first. */
  readonly temporal: number;
  readonly latentChannels: number;
  /** Whether its coders are told which latent frame a chunk is. */
  readonly seesFrames?: boolean;
  /** A latent frame in the autoencoder's units to pixels in [-1, 1]. */
  decode(graph: Graph, latents: Tensor, stream: Stream): Tensor;
  /** The frames of a latent frame to latents, normalised. */
  encode(graph: Graph, pixels: Tensor, stream: Stream): Tensor;
}

export interface VideoSize extends TiledSize {
  readonly frames: number;
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
export function videoDecoder(
  { scale, latentChannels, seesFrames = false, decode }: VideoCodec,
  { frames, height, width, tileSide }: VideoSize,
): (stage: Stage, name: string) => Decoder {
  const tiles = tilesOf(height, width, tileSide);
  const { rows, columns } = tiles[0]!;
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
    const input = stage.tensor(`${name} input`, [frames, height, width, latentChannels]);
    const count = frames * tiles.length;
    stage.repeats = Math.max(stage.repeats, count);
    const chunked = seesFrames && frames > 1;
    const inputs = {
      latents: input,
      positions: u32(1, 1, rows.size, columns.size),
      frame: chunked ? u32(1) : undefined,
    };
    const { first: image, next } = traceChunks(frames, (place) =>
      stage.program(
        `${name} ${place === "next" ? place : "first"}`,
        inputs,
        ({ latents, positions, frame }, graph) => {
          const part = gather(latents.reshape(-1, latentChannels), positions);
          return decode(graph, part, { place, history, chunk: frame && { frame, frames } });
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
            await work.run([
              ...before,
              program.call({ positions, frame: chunked ? [i] : undefined }),
            ], {
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

/** The frames of a video, at least one, each RGB: bytes, numbers in [-1, 1], or nothing where all of it is 0. */
export interface VideoFrames {
  readonly length: number;
  at(index: number): Uint8Array | Float32Array | undefined;
}

export interface VideoEncoder {
  readonly stage: Stage;
  /** Normalised, [frames, height, width, channels]; complete when `run` is. */
  readonly latents: DeviceTensor;
  /** Encodes a video, or an image; the last frame stands still if there are too few. */
  run(work: Work, video: VideoFrames): Promise<void>;
}

export function traceVideoEncoder(
  session: Session,
  { scale, temporal, latentChannels, seesFrames = false, encode }: VideoCodec,
  { frames, height, width, tileSide }: VideoSize,
  { name = "encode", runs = 1 }: { readonly name?: string; readonly runs?: number } = {},
): VideoEncoder {
  const tiles = tilesOf(height, width, tileSide);
  const { rows, columns } = scaleTile(tiles[0]!, scale);
  const count = frames * tiles.length;
  const stage = session.stage("encode", { name, repeats: count * runs });
  session.encodeSteps += count * runs;
  const history = new FrameHistory((...spec) => stage.tensor(...spec));
  const latents = stage.tensor("video latents", [frames, height, width, latentChannels]);
  const chunked = seesFrames && frames > 1;
  const { first: image, next = image } = traceChunks(frames, (place) => {
    const length = place === "next" ? temporal : 1;
    const inputs = {
      pixels: f32(1, length, rows.size, columns.size, 3),
      // Which latent frame it is, where its positions come from, and how much each counts: nothing outside its tile.
      chunk: f32(frames, 1, 1, 1),
      positions: u32(1, height, width),
      shares: f32(1, height, width, 1),
      latents,
      frame: chunked ? u32(1) : undefined,
    };
    return stage.program(
      `encode ${place === "next" ? place : "first"}`,
      inputs,
      ({ pixels, chunk, positions, shares, latents: sum, frame }, graph) => {
        const stream = { place, history, chunk: frame && { frame, frames } };
        const part = encode(graph, pixels, stream);
        const x = gather(part.reshape(-1, latentChannels), positions);
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
            program.call({
              ...{ pixels, chunk, positions, shares },
              frame: chunked ? [i] : undefined,
            }),
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
