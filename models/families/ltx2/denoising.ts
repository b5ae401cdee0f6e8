/** A denoising loop of LTX-2: what it begins with, where tokens are, and the steps. A video of two stages has two. */
import {
  concat,
  type DeviceTensor,
  elementwise,
  f32,
  gather,
  type Graph,
  type Rotation,
  slice,
  type Tensor,
  writing,
} from "../../../runtime/mod.ts";
import type { Session } from "../../memory/session.ts";
import type { Denoiser } from "../../pipeline/denoiser.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import type { CommonShape } from "../../pipeline/family.ts";
import { ltx2Frames } from "../../pipeline/ltx2_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import type { TorchGenerator } from "../../schedulers/noise.ts";
import { streamOf } from "./config.ts";
import type { Ltx2Given } from "./encode_given.ts";
import {
  type GivenPlace,
  givenPlaces,
  type GivenShape,
  type GivenTokens,
  heldVelocity,
  loopTokens,
  noisyGiven,
  withGiven,
} from "./given.ts";
import { ltx2CombinedGuidance, ltx2Guidance, type PassKind } from "./guidance.ts";
import { type Ltx2Times, ltx2Times, MODALITIES } from "./modulation.ts";
import type { Ltx2Noise } from "./noise.ts";
import type { Ltx2Parts } from "./parts.ts";
import {
  type Ltx2Positions,
  ltx2Positions,
  POSITIONS,
  type VideoGrid,
  videoTokens,
} from "./positions.ts";
import { type Both, ltx2Transformer } from "./transformer.ts";

interface LoopShape extends CommonShape {
  readonly grid: VideoGrid;
  readonly fps: number;
  /** Latents of the sound. */
  readonly sound: number;
  readonly given: GivenShape;
  readonly guided: readonly PassKind[];
  readonly perturbed: readonly number[];
  readonly tileSide: number;
}

interface LoopOptions {
  /** After the names of its stages, of the second loop of a request. */
  readonly suffix?: string;
  readonly schedule: Schedule;
  readonly noise: Ltx2Noise;
  readonly encoded: Ltx2Given;
  /** A sound that is given, normalised and packed. */
  readonly heard?: DeviceTensor | undefined;
  /** Of the prompt, and of the negative one where there is one. */
  readonly context: readonly Both<DeviceTensor>[];
  /** What noise is mixed with, by its first level: tokens of a video, and of the sound; nothing by default. */
  readonly clean?: { readonly video: DeviceTensor; readonly sound: DeviceTensor } | undefined;
  /** How many times as long the sides of the result are; 1 by default. */
  readonly enlarged?: number;
  /** Steps of the request's other loops. */
  readonly others?: { readonly before: number; readonly after: number };
}

export interface Ltx2Loop {
  /** Tokens of the video, of images for frames after the first, and of the sound, [1, tokens, channels]. */
  readonly sample: DeviceTensor;
  /** Tokens of frames that the video begins with. */
  readonly first?: DeviceTensor | undefined;
  /** Where the tokens of the sound begin. */
  readonly soundStart: number;
  run(work: Work, generator: TorchGenerator): Promise<void>;
}

export function traceLtx2Loop(
  session: Session,
  { transformer, vae }: Pick<Ltx2Parts, "transformer" | "vae">,
  shape: LoopShape,
  options: LoopOptions,
): Ltx2Loop {
  const { suffix = "", schedule, noise: source, encoded, context, clean } = options;
  const { enlarged = 1, others } = options;
  const { grid, fps, sound, guided, given, tileSide } = shape;
  const { config, weights: { root: weights } } = transformer;
  const { in_channels: channels } = config;
  const area = grid.rows * grid.columns;
  const { video: count, more } = loopTokens(shape);
  const soundStart = count + more;
  const steps = schedule.timesteps.length;
  const places = givenPlaces(shape);
  const seenPlaces = places.filter(({ kind }) => kind !== "sound");
  const givenTimes = new GivenTimes(seenPlaces, schedule.timesteps);
  const isSeen = seenPlaces.length > 0;
  const level = schedule.sigmas[0]!;

  const begin = session.stage("denoise", { name: `begin${suffix}` }).program(
    "begin",
    {
      noise: f32(source.size),
      ...encoded.latents,
      given: options.heard,
      video: clean?.video,
      heard: clean?.sound,
    },
    ({ noise, first, keys, control, given: sound, video, heard }, graph) => {
      const times = ltx2Times(graph, config, weights, [...schedule.timesteps], {
        more: givenTimes.timesteps,
        hasSound: sound !== undefined,
      });
      const tokensOf = (latents: Tensor | undefined) => latents?.reshape(1, -1, channels);
      const tokens = {
        first: tokensOf(first),
        keys: tokensOf(keys),
        control: tokensOf(control),
        sound: tokensOf(sound),
      };
      const further = [tokens.keys, tokens.control].filter((x) => x !== undefined);
      const pure = source.arrange(noise);
      const own = video && heard &&
        concat([video, ...further, heard], 1);
      const mixed = own
        ? elementwise("level * n + (1.0 - level) * x", { n: pure, x: own }, {
          scalars: { level },
        })
        : pure;
      return {
        sample: noisyGiven(mixed, pure, tokens, places, own ? level : 1),
        ...tokens,
        times: MODALITIES.map((modality) => {
          const { text, ...others } = times[modality];
          return text ? { ...others, text } : others;
        }),
      };
    },
  );
  const positions = POSITIONS.map((kind) => {
    const isVideo = kind.startsWith("video");
    const dim = kind.endsWith("Cross")
      ? config.audio_cross_attention_dim
      : streamOf(config, isVideo ? "video" : "audio").dim;
    const table = [isVideo ? soundStart : sound, dim / 2];
    return {
      cos: session.tensor(`${kind} cos${suffix}`, table),
      sin: session.tensor(`${kind} sin${suffix}`, table),
    };
  });

  const { sample, first, keys, control, sound: held, times } = begin.outputs;
  const tokens = { first, keys, control, sound: held };
  const loop = session.stage("denoise", { name: `denoise${suffix}`, repeats: steps });
  const seen = { height: grid.rows * enlarged, width: grid.columns * enlarged };
  const shown = ltx2Frames(vae, { frames: 1, ...seen, tileSide });
  // Of the frames that are made the first.
  const frame = Math.min(given.first, grid.frames - 1);
  const denoiser: Denoiser = traceDenoiser(loop, shape, {
    schedule,
    sample,
    ...(others && { others }),
    noise: { shape: [source.size], arrange: (noise) => source.arrange(noise) },
    passes: guided.map((kind) => ({
      context: [context[kind === "negative" ? 1 : 0]!],
      positions,
      times,
      ...tokens,
    })),
    step: { shape: [1 + givenTimes.count], values: (i) => [i, ...givenTimes.rows(i)] },
    predict: (
      { sample, step, context: [context], positions, times, ...clean },
      graph,
      { pass },
    ) => {
      const x = withGiven(sample, clean, places);
      const at = Object.fromEntries(POSITIONS.map((kind, i) => [kind, positions[i]!]));
      const outputs = ltx2Transformer(graph, config, weights, {
        sample: { video: slice(x, 1, 0, soundStart), audio: slice(x, 1, soundStart) },
        context: context!,
        positions: at as unknown as Ltx2Positions<Rotation>,
        times: { video: times[0]!, audio: times[1]! } as Ltx2Times<Tensor>,
        step: slice(step, 0, 0, 1),
        ...(isSeen && {
          videoSteps: step,
          tokenTimes: givenTimes.ofTokens(graph, soundStart),
        }),
        perturbed: guided[pass] === "perturbed" ? shape.perturbed : [],
        isIsolated: guided[pass] === "isolated",
      });
      const velocity = concat([outputs.video, outputs.audio], 1);
      if (guided.length > 1) return velocity;
      const sigmas = graph.constant("sigmas", [steps, 1], "f32", schedule.sigmas.slice(0, steps));
      const sigma = gather(sigmas, slice(step, 0, 0, 1));
      return heldVelocity(velocity, x, clean, places, sigma);
    },
    guidance: guided.length > 1
      ? ltx2CombinedGuidance(guided.length, soundStart, places, tokens)
      : undefined,
    preview: {
      decoder: shown.decoder,
      part: (x) => slice(x, 1, frame * area, (frame + 1) * area),
      decoded: (part) => {
        const tokens = gather(
          part.reshape(area, channels),
          nearest(part.graph, grid, enlarged),
        );
        return shown.scaled(tokens.reshape(1, seen.height, seen.width, channels));
      },
    },
  });

  return {
    sample,
    first,
    soundStart,
    async run(work, generator) {
      const draw = source.draw(generator);
      const noise = draw();
      const tables = ltx2Positions(config, grid, sound, fps, given);
      await work.run([
        ...POSITIONS.flatMap((kind, i) => [
          writing(positions[i]!.cos, tables[kind].cos),
          writing(positions[i]!.sin, tables[kind].sin),
        ]),
        begin.call({ noise }),
      ]);
      const guidance = ltx2Guidance(work.request, config, guided, schedule.sigmas);
      await denoiser.run(work, guidance, draw, { noise });
    },
  };
}

/** The video in the sample of a loop, with the frames that it begins with, [1, tokens, channels]. */
export function madeVideo(
  { sample, first }: { readonly sample: Tensor } & GivenTokens<Tensor>,
  shape: Pick<LoopShape, "grid" | "given" | "sound">,
): Tensor {
  const places = givenPlaces(shape).filter(({ kind }) => kind === "first");
  return slice(withGiven(sample, { first }, places), 1, 0, videoTokens(shape.grid));
}

/** Which tokens of a frame stand where it is `scale` times as large, u32. */
function nearest(graph: Graph, { rows, columns }: VideoGrid, scale: number): Tensor {
  const width = columns * scale;
  const values = Uint32Array.from(
    { length: rows * scale * width },
    (_, i) => Math.floor(Math.floor(i / width) / scale) * columns + Math.floor(i % width / scale),
  );
  return graph.constant("places", [values.length], "u32", values);
}

/** Timesteps of what is given: a strength leaves it so much nearer to its end. */
class GivenTimes {
  /** Those that follow the steps' own in the tables of timesteps. */
  readonly timesteps: readonly number[];
  readonly #strengths: readonly number[];
  readonly #places: readonly GivenPlace[];
  readonly #steps: number;

  constructor(places: readonly GivenPlace[], timesteps: ArrayLike<number>) {
    const own = Array.from(timesteps);
    this.#places = places;
    this.#strengths = [...new Set(places.map(({ strength }) => strength))];
    this.#steps = own.length;
    const { fround } = Math;
    this.timesteps = this.#strengths.flatMap((strength) => {
      const rest = fround(1 - fround(strength));
      return own.map((timestep) => fround(fround(timestep) * rest));
    });
  }

  get count(): number {
    return this.#strengths.length;
  }

  /** Rows of the tables at a step. */
  rows(i: number): number[] {
    return this.#strengths.map((_, k) => (k + 1) * this.#steps + i);
  }

  /** Which timestep each token of the video has: the step's own, or one of `rows`; u32 [1, tokens]. */
  ofTokens(graph: Graph, tokens: number): Tensor {
    const values = new Uint32Array(tokens);
    for (const { start, end, strength } of this.#places) {
      values.fill(1 + this.#strengths.indexOf(strength), start, end);
    }
    return graph.constant("token times", [1, tokens], "u32", values);
  }
}
