/**
 * The autoencoder's programs for videos of one size, one latent frame at a time: what the convolutions saw of earlier
 * frames stays on the device in between.
 */
import {
  type Call,
  clearing,
  copyTo,
  elementwise,
  f32,
  gather,
  type Graph,
  type InputSpec,
  type Program,
  type Resident,
  slice,
  type Tensor,
  u32,
  type Weights,
} from "../../../runtime/mod.ts";
import type { Stage } from "../../memory/session.ts";
import type { DecodeOptions, Decoder } from "../../pipeline/decoding.ts";
import { toSignedRange } from "../../pipeline/pixels.ts";
import type { Work } from "../../pipeline/work.ts";
import type { WanVaeConfig } from "./config.ts";
import { wanDecoder } from "./decoder.ts";
import { wanEncoder } from "./encoder.ts";
import { type ChunkPlace, FrameHistory } from "./history.ts";

/** An autoencoder's configuration and weights. */
export interface WanVae {
  readonly config: WanVaeConfig;
  readonly weights: Weights;
}

/** Size of a video in latents. */
export interface LatentSize {
  readonly frames: number;
  readonly height: number;
  readonly width: number;
}

/** Normalised latents, channels last, in the autoencoder's own units. */
export function unscaleLatents({ config }: WanVae, latents: Tensor): Tensor {
  const x = latents;
  return elementwise("x * spread + center", { x, ...latentScale(x.graph, config) });
}

/** Mean and standard deviation of the latents, per channel. */
function latentScale(
  graph: Graph,
  { z_dim, latents_mean, latents_std }: WanVaeConfig,
): { center: Tensor; spread: Tensor } {
  return {
    center: graph.constant("latents mean", [z_dim], "f32", latents_mean),
    spread: graph.constant("latents std", [z_dim], "f32", latents_std),
  };
}

/** From latents in the autoencoder's units, [frames, height, width, channels], to frames. */
export class WanVideoDecoder implements Decoder {
  readonly input: Resident;
  readonly count: number;
  readonly #history: FrameHistory;
  readonly #first: Program<Record<never, never>, Tensor>;
  readonly #next: Program<{ readonly frame: InputSpec }, Tensor> | undefined;

  /** Traces a program for the first latent frame, and one for each of the later ones. */
  constructor(stage: Stage, { config, weights }: WanVae, size: LatentSize, name = "decode") {
    const { frames, height, width } = size;
    const history = new FrameHistory((name, shape) => stage.tensor(name, shape));
    const shape = [1, 1, height, width, config.z_dim];
    const decode = (graph: Graph, latent: Tensor, place: ChunkPlace) =>
      wanDecoder(graph, config, weights.root, latent.reshape(...shape), { place, history });
    this.input = stage.tensor(`${name} input`, [frames, height, width, config.z_dim]);
    this.count = frames;
    stage.repeats = Math.max(stage.repeats, frames);
    this.#history = history;
    const first = frames === 1 ? "only" : "first";
    this.#first = stage.program(
      `${name} first`,
      { latents: this.input },
      ({ latents }, graph) => decode(graph, slice(latents, 0, 0, 1), first),
    );
    stage.willRead(this.#first.outputs);
    if (frames === 1) return;
    this.#next = stage.program(
      `${name} next`,
      { latents: this.input, frame: u32(1) },
      ({ latents, frame }, graph) =>
        decode(graph, gather(latents.reshape(frames, -1), frame), "next"),
    );
    stage.willRead(this.#next.outputs);
  }

  /** What is read back, each by itself. */
  get results(): Resident[] {
    return [this.#first, this.#next].flatMap((program) => (program ? [program.outputs] : []));
  }

  /** @inheritdoc */
  async run(
    work: Pick<Work, "run">,
    { first = [], reads = [], begin, received }: DecodeOptions,
  ): Promise<void> {
    const begins: Call = { write: () => begin?.() };
    const call = this.#first.call({});
    await work.run([clearing(this.#history.residents), begins, ...first, call], {
      reads: [...reads, this.#first.outputs],
      finished: (contents) => received(1, contents.at(-1)!, contents.slice(0, -1)),
    });
    for (let i = 1; i < this.count; i++) {
      await work.run([this.#next!.call({ frame: [i] })], {
        reads: [this.#next!.outputs],
        finished: ([pixels]) => received(i + 1, pixels!, []),
      });
    }
  }
}

/** The mean of what the encoder gives for frames in [-1, 1], normalised: [1, 1, height, width, channels]. */
function encode(
  graph: Graph,
  { config, weights }: WanVae,
  frames: Tensor,
  place: ChunkPlace,
  history: FrameHistory,
): Tensor {
  const moments = wanEncoder(graph, config, weights.root, frames, { place, history });
  return elementwise("(m - center) / spread", {
    m: slice(moments, -1, 0, config.z_dim),
    ...latentScale(graph, config),
  });
}

/** Traces an image's way to one normalised latent frame, [1, 1, height, width, channels]. */
export function traceWanImage(graph: Graph, vae: WanVae, pixels: Tensor): Tensor {
  return encode(graph, vae, pixels, "only", new FrameHistory());
}

/** From the frames of a video to normalised latents, [frames, height, width, channels]. */
export class WanVideoEncoder {
  /** Complete when {@linkcode WanVideoEncoder.run} is. */
  readonly latents: Resident;
  /** How many chunks there are. */
  readonly count: number;
  readonly #temporal: number;
  readonly #history: FrameHistory;
  readonly #chunks: readonly Program<
    { readonly pixels: InputSpec; readonly mask: InputSpec },
    void
  >[];

  /** Traces a program for the first frame, and one for each later chunk; each writes its own latent frame. */
  constructor(stage: Stage, vae: WanVae, { frames, height, width }: LatentSize) {
    const { scale_factor_spatial: s, scale_factor_temporal: temporal, z_dim } = vae.config;
    const history = new FrameHistory((name, shape) => stage.tensor(name, shape));
    const latents = stage.tensor("video latents", [frames, height, width, z_dim]);
    const places = frames === 1 ? ["only" as const] : ["first" as const, "next" as const];
    this.latents = latents;
    this.count = frames;
    stage.repeats = Math.max(stage.repeats, frames);
    this.#temporal = temporal;
    this.#history = history;
    this.#chunks = places.map((place) => {
      const length = place === "next" ? temporal : 1;
      const inputs = {
        pixels: f32(1, length, height * s, width * s, 3),
        mask: f32(frames, 1, 1, 1),
        latents,
      };
      return stage.program(`encode ${place}`, inputs, ({ pixels, mask, latents: all }, graph) => {
        const x = encode(graph, vae, pixels, place, history).reshape(1, height, width, z_dim);
        copyTo(elementwise("(1.0 - mask) * frames + mask * x", { frames: all, x, mask }), latents);
      });
    });
  }

  /**
   * Encodes a video; the last frame stands still where there are too few.
   *
   * @param video RGB bytes of every frame
   */
  async run(work: Work, video: readonly Uint8Array[]): Promise<void> {
    for (let i = 0; i < this.count; i++) {
      const first = i === 0 ? 0 : 1 + (i - 1) * this.#temporal;
      const length = i === 0 ? 1 : this.#temporal;
      const frames = Array.from({ length }, (_, k) => video[first + k] ?? video.at(-1)!);
      const mask = Array.from({ length: this.count }, (_, k) => Number(k === i));
      const call = this.#chunks[Math.min(i, 1)]!.call({ pixels: toPixels(frames), mask });
      const calls = i === 0 ? [clearing(this.#history.residents), call] : [call];
      await work.run(calls, { finished: () => work.encodeDone() });
    }
  }
}

/** Frames one after the other, in [-1, 1]. */
function toPixels(frames: readonly Uint8Array[]): Float32Array {
  const size = frames[0]!.length;
  const pixels = new Float32Array(frames.length * size);
  frames.forEach((frame, i) => pixels.set(toSignedRange(frame), i * size));
  return pixels;
}
