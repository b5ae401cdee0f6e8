/** LTX-2's video autoencoder in a pipeline: in one piece, or in tiles and spans of time whose seams are blended. */
import {
  type Call,
  clearing,
  copyTo,
  type DeviceTensor,
  elementwise,
  f32,
  gather,
  type Tensor,
  u32,
  type Weights,
} from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import type { Decoder } from "../autoencoders/tiled_coder.ts";
import {
  addTile,
  scaleTile,
  seamShares,
  type Span,
  spansOf,
  tilePositions,
  tilesOf,
} from "../autoencoders/tiling.ts";
import { ltx2Scale, type Ltx2VideoVaeConfig } from "../autoencoders/ltx2/video_config.ts";
import { FrameMemory, type PiecePlace } from "../autoencoders/ltx2/frame_memory.ts";
import {
  ltx2DecoderHead,
  ltx2DecoderTail,
  ltx2VideoEncoder,
  scaleVideoLatents,
  tailFrames,
  tailPieces,
  unscaleVideoLatents,
} from "../autoencoders/ltx2/video_coder.ts";
import { placesOf, toPixels, type VideoFrames, type VideoSize } from "./video_coders.ts";
import type { Work } from "./work.ts";

interface Ltx2VideoVae {
  readonly config: Ltx2VideoVaeConfig;
  readonly weights: Weights;
}

/** Latent frames that neighbouring spans of time share, and those of the shortest span. */
const SHARED_FRAMES = 3;
const LEAST_FRAMES = 6;

/** Spans of latent frames that are decoded at a time: all in one piece, or about as many as a tile is half as wide. */
function timesOf({ frames, height, width, tileSide }: VideoSize): Span[] {
  const isWhole = tileSide >= Math.max(height, width);
  const most = isWhole ? frames : Math.max(LEAST_FRAMES, Math.floor(tileSide / 2) + 1);
  return spansOf(frames, most, SHARED_FRAMES);
}

/** Frames of a span of latent frames: the first is one frame, whatever stands before it. */
function framesOf({ start, size, before, after }: Span, scale: number): Span {
  const count = (latents: number) => latents === 0 ? 0 : (latents - 1) * scale + 1;
  return { start: start * scale, size: count(size), before: count(before), after: count(after) };
}

/** From latents, [frames, height, width, channels], to frames, some at a time. */
export function ltx2Frames(
  { config, weights }: Ltx2VideoVae,
  size: VideoSize,
): {
  readonly decoder: (stage: Stage, name: string) => Decoder;
  /** What the decoder takes of normalised latents, channels last. */
  readonly scaled: (latents: Tensor) => Tensor;
} {
  return {
    decoder: (stage, name) => new Ltx2VideoDecoder(stage, name, { config, weights }, size),
    scaled: (latents) => unscaleVideoLatents(config, weights.root, latents),
  };
}

class Ltx2VideoDecoder implements Decoder {
  readonly input: DeviceTensor;
  readonly count: number;
  readonly #size: VideoSize;
  readonly #scale: ReturnType<typeof ltx2Scale>;
  readonly #times: readonly Span[];
  readonly #tiles: ReturnType<typeof tilesOf>;
  readonly #head;
  /** The pieces of a span in order, some of them by one program: the last level holds few frames at a time. */
  readonly #pieces;

  constructor(stage: Stage, name: string, { config, weights }: Ltx2VideoVae, size: VideoSize) {
    const { frames, height, width, tileSide } = size;
    const { latent_channels: channels } = config;
    this.#size = size;
    this.#scale = ltx2Scale(config);
    this.#times = timesOf(size);
    this.#tiles = tilesOf(height, width, tileSide);
    this.input = stage.tensor(`${name} input`, [frames, height, width, channels]);
    const [time] = this.#times as [Span];
    const { rows, columns } = this.#tiles[0]!;
    const inputs = {
      latents: this.input,
      positions: this.#isWhole ? undefined : u32(time.size, rows.size, columns.size),
    };
    this.#head = stage.program(name, inputs, ({ latents, positions }, graph) => {
      const part = positions ? gather(latents.reshape(-1, channels), positions) : latents;
      const own = part.reshape(1, time.size, rows.size, columns.size, channels);
      return ltx2DecoderHead(graph, config, weights.root, own);
    });
    const features = this.#head.outputs;
    const memory = new FrameMemory((...spec) => stage.tensor(...spec));
    const lengths = tailPieces(config, tailFrames(config, time.size));
    const placeOf = (i: number): PiecePlace =>
      lengths.length === 1
        ? "only"
        : i === 0
        ? "first"
        : i === lengths.length - 1
        ? "last"
        : "next";
    const trace = (place: PiecePlace, length: number) => {
      const places = u32(length);
      const program = stage.program(
        place === "only" ? `${name} frames` : `${name} ${place} frames`,
        { features, places },
        ({ features, places }, graph) => {
          const [, all, ...shape] = features.shape as [number, number, ...number[]];
          const own = gather(features.reshape(all, -1), places).reshape(1, length, ...shape);
          return ltx2DecoderTail(graph, config, weights.root, own, { place, memory });
        },
      );
      stage.willRead(program.outputs);
      return program;
    };
    const programs = new Map<PiecePlace, ReturnType<typeof trace>>();
    let from = 0;
    this.#pieces = lengths.map((length, i) => {
      const place = placeOf(i);
      const program = programs.get(place) ?? trace(place, length);
      programs.set(place, program);
      const places = Uint32Array.from({ length }, (_, k) => from + k);
      from += length;
      return { program, places };
    });
    const parts = this.#times.length * this.#tiles.length;
    this.count = parts * lengths.length;
    stage.repeats = Math.max(stage.repeats, this.count);
  }

  get #isWhole(): boolean {
    return this.#times.length * this.#tiles.length === 1;
  }

  get firstResult(): DeviceTensor {
    return this.#pieces[0]!.program.outputs;
  }

  async run(
    work: Parameters<Decoder["run"]>[0],
    { first = [], reads = [], begin, received }: Parameters<Decoder["run"]>[1],
  ): Promise<void> {
    const { height, width } = this.#size;
    const { spatial, temporal } = this.#scale;
    const frameSize = height * spatial * width * spatial * 3;
    // Frames that not all spans and tiles have been added to, from `base` on.
    const open: Float32Array<ArrayBuffer>[] = [];
    let base = 0;
    let done = 0;
    for (const [t, time] of this.#times.entries()) {
      const span = framesOf(time, temporal);
      const shares = seamShares(span);
      for (const [k, tile] of this.#tiles.entries()) {
        const corner = tilePositions(tile, width);
        const positions = this.#isWhole ? undefined : Uint32Array.from(
          { length: time.size * corner.length },
          (_, i) =>
            (time.start + Math.floor(i / corner.length)) * height * width +
            corner[i % corner.length]!,
        );
        const isLastTile = k === this.#tiles.length - 1;
        let from = 0;
        for (const [i, { program, places }] of this.#pieces.entries()) {
          const isFirst = t === 0 && k === 0 && i === 0;
          const before: Call[] = isFirst ? [{ write: () => begin?.() }, ...first] : [];
          if (i === 0) before.push(this.#head.call({ positions }));
          const count = program.outputs.shape[1]!;
          const start = from;
          from += count;
          await work.run([...before, program.call({ places })], {
            reads: [...isFirst ? reads : [], program.outputs],
            finished: (contents) => {
              const values = contents.at(-1)!;
              const rest = contents.slice(0, -1);
              if (this.#isWhole) return received(++done, values, rest);
              const size = values.length / count;
              for (let j = 0; j < count; j++) {
                const data = open[span.start + start + j - base] ??= new Float32Array(frameSize);
                const part = values.subarray(j * size, (j + 1) * size);
                const whole = { data, width: width * spatial };
                addTile(whole, scaleTile(tile, spatial), part, shares[start + j]);
              }
              const complete = isLastTile
                ? Math.min(span.start + start + count, span.start + span.size - span.after) - base
                : 0;
              if (complete <= 0) return received(++done, undefined, rest);
              base += complete;
              received(++done, joined(open.splice(0, complete), frameSize), rest);
            },
          });
        }
      }
    }
  }
}

function joined(frames: readonly Float32Array[], frameSize: number): Float32Array {
  const all = new Float32Array(frames.length * frameSize);
  frames.forEach((frame, i) => all.set(frame, i * frameSize));
  return all;
}

interface Ltx2VideoEncoder {
  readonly stage: Stage;
  /** Normalised, [frames, height, width, channels]; complete when `run` is. */
  readonly latents: DeviceTensor;
  /** Encodes an image or a video; the last frame stands still where there are too few. */
  run(work: Work, video: VideoFrames): Promise<void>;
}

/** Encodes `frames` latent frames in tiles; an image is one. */
export function traceLtx2Encoder(
  session: Session,
  { config, weights }: Ltx2VideoVae,
  { frames, height, width, tileSide }: VideoSize,
  { name = "encode", runs = 1 }: { readonly name?: string; readonly runs?: number } = {},
): Ltx2VideoEncoder {
  const { spatial, temporal } = ltx2Scale(config);
  const { latent_channels: channels } = config;
  const tiles = tilesOf(height, width, tileSide);
  const { rows, columns } = scaleTile(tiles[0]!, spatial);
  const length = (frames - 1) * temporal + 1;
  const stage = session.stage("encode", { name, repeats: tiles.length * runs });
  session.encodeSteps += tiles.length * runs;
  const latents = stage.tensor("video latents", [frames, height, width, channels]);
  const program = stage.program(
    name,
    {
      pixels: f32(1, length, rows.size, columns.size, 3),
      // Where in the tile each latent of a frame lies, and how much it counts: nothing outside the tile.
      positions: u32(frames, height, width),
      shares: f32(1, height, width, 1),
      latents,
    },
    ({ pixels, positions, shares, latents: sum }, graph) => {
      const means = ltx2VideoEncoder(graph, config, weights.root, pixels);
      const own = scaleVideoLatents(config, weights.root, means);
      const x = gather(own.reshape(-1, channels), positions);
      copyTo(elementwise("sum + shares * x", { sum, shares, x }), latents);
    },
  );
  return {
    stage,
    latents,
    async run(work, video) {
      const seen = Array.from(
        { length },
        (_, i) => video.at(Math.min(i, video.length - 1)),
      );
      for (const [i, tile] of tiles.entries()) {
        const places = placesOf(tile, height, width);
        const inTile = tile.rows.size * tile.columns.size;
        const positions = Uint32Array.from(
          { length: frames * height * width },
          (_, k) =>
            Math.floor(k / (height * width)) * inTile + places.positions[k % (height * width)]!,
        );
        const pixels = toPixels(seen, scaleTile(tile, spatial), width * spatial);
        await work.run([
          ...i === 0 ? [clearing([latents])] : [],
          program.call({ pixels, positions, shares: places.shares }),
        ], { finished: () => work.encodeDone() });
      }
    },
  };
}
