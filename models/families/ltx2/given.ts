/**
 * What a video is made from beside its prompts: latent frames that it begins with, and images for other frames, whose tokens come
 * after those of the video. What has a strength below 1 is noisy by the rest of it, and every step brings it nearer.
 * Source: diffusers `LTX2ConditionPipeline`.
 */
import {
  clearing,
  concat,
  copyTo,
  type DeviceTensor,
  elementwise,
  f32,
  slice,
  type Tensor,
} from "../../../runtime/mod.ts";
import type { Session } from "../../memory/session.ts";
import { traceLtx2Encoder } from "../../pipeline/ltx2_coders.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { VideoFrames } from "../../pipeline/video_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import type { Ltx2Parts } from "./parts.ts";
import { type VideoGrid, videoTokens } from "./positions.ts";
import { SettingError } from "../../setting_error.ts";

/** Frames of a clip that a continued one begins with, where it has so many. */
export const CONTINUED_FRAMES = 17;

export interface GivenShape {
  /** Latent frames that are given first, and how much they count, 0 to 1. */
  readonly first: number;
  readonly firstStrength: number;
  readonly keys: readonly KeyFrame[];
}

/** An image for a frame that is not the first. */
interface KeyFrame {
  readonly frame: number;
  readonly strength: number;
}

/** Frames that the images of a request are for: those that it says, else such as begin latent frames, evenly spread. */
function imageFrames(
  { images = [], imageFrames, numFrames }: PipelineRequest,
  temporal: number,
): readonly number[] {
  if (imageFrames) return imageFrames;
  const last = (numFrames - 1) / temporal;
  return images.map((_, i) => {
    const latent = i === 0 ? 0 : Math.round(i * last / (images.length - 1));
    return Math.max(0, (latent - 1) * temporal + 1);
  });
}

export function checkLtx2Images(request: PipelineRequest, temporal: number): void {
  const { task, images = [], imageFrames: frames, imageStrengths: strengths, numFrames } = request;
  const count = images.length;
  const asked = frames ? "imageFrames" : strengths ? "imageStrengths" : undefined;
  if (task !== "I2V" && asked) {
    throw new SettingError(
      asked,
      `Cannot use ${asked} in ${task}: they are those of images; omit them`,
    );
  }
  if (strengths && strengths.length !== 1 && strengths.length !== count) {
    throw new SettingError(
      "imageStrengths",
      `Cannot use ${strengths.length} imageStrengths for ${count} images: give one for all or one for each`,
    );
  }
  if (!frames) {
    const least = (count - 1) * temporal + 1;
    if (numFrames >= least) return;
    throw new SettingError(
      "numFrames",
      `Cannot spread ${count} images over ${numFrames} frames: ask for ${least} or more, or say their imageFrames`,
    );
  }
  if (frames.length !== count) {
    throw new SettingError(
      "imageFrames",
      `Cannot use ${frames.length} imageFrames for ${count} images: give one for each`,
    );
  }
  const beyond = frames.find((frame) => frame >= numFrames);
  if (beyond !== undefined) {
    throw new SettingError(
      "imageFrames",
      `Cannot place an image at frame ${beyond}: the video has frames 0 to ${numFrames - 1}`,
    );
  }
  const twice = frames.find((frame, i) => frames.indexOf(frame) < i);
  if (twice === undefined) return;
  throw new SettingError(
    "imageFrames",
    `Cannot place two images at frame ${twice}: give each a frame of its own`,
  );
}

export function givenOf(
  request: PipelineRequest,
  { frames }: VideoGrid,
  temporal: number,
): GivenShape {
  const { task, video = [], imageStrengths: strengths = [1] } = request;
  if (task === "I2V") {
    const placed = imageFrames(request, temporal).map((frame, i) => ({
      frame,
      strength: strengths[strengths.length === 1 ? 0 : i]!,
    }));
    const first = placed.find(({ frame }) => frame === 0);
    return {
      first: first ? 1 : 0,
      firstStrength: first?.strength ?? 1,
      keys: placed.filter(({ frame }) => frame > 0),
    };
  }
  if (task !== "F2V") return { first: 0, firstStrength: 1, keys: [] };
  const known = Math.floor((Math.min(video.length, CONTINUED_FRAMES) - 1) / temporal) + 1;
  // At least one latent frame is new, where there are two.
  return { first: Math.min(known, Math.max(1, frames - 1)), firstStrength: 1, keys: [] };
}

/** Tokens of what is given, [1, tokens, channels] each. */
export type GivenTokens<T> = {
  readonly first?: T | undefined;
  readonly keys?: T | undefined;
};

/** Tokens of the sample that something is given for. */
export interface GivenPlace {
  readonly kind: keyof GivenTokens<Tensor>;
  readonly start: number;
  readonly end: number;
  /** Where its own tokens begin among those of its kind. */
  readonly from: number;
  readonly strength: number;
}

export function givenPlaces(
  { given: { first, firstStrength, keys }, grid }: {
    readonly given: GivenShape;
    readonly grid: VideoGrid;
  },
): GivenPlace[] {
  const area = grid.rows * grid.columns;
  const count = videoTokens(grid);
  const begin = { kind: "first", start: 0, end: first * area, from: 0, strength: firstStrength };
  return [
    ...first > 0 ? [begin as GivenPlace] : [],
    ...keys.map(({ strength }, i): GivenPlace => {
      const from = i * area;
      return { kind: "keys", start: count + from, end: count + from + area, from, strength };
    }),
  ];
}

function replaced(
  x: Tensor,
  places: readonly GivenPlace[],
  part: (place: GivenPlace) => Tensor,
): Tensor {
  if (places.length === 0) return x;
  const ends = [0, ...places.map(({ end }) => end)];
  const starts = [...places.map(({ start }) => start), x.dim(1)];
  const between = (i: number) => ends[i]! < starts[i]! ? [slice(x, 1, ends[i]!, starts[i]!)] : [];
  return concat([
    ...places.flatMap((place, i) => [...between(i), part(place)]),
    ...between(places.length),
  ], 1);
}

function tokensOf(given: GivenTokens<Tensor>, { kind, start, end, from }: GivenPlace): Tensor {
  return slice(given[kind]!, 1, from, from + end - start);
}

/** The sample with what is given in full in the place of its own tokens. */
export function withGiven(
  sample: Tensor,
  given: GivenTokens<Tensor>,
  places: readonly GivenPlace[],
): Tensor {
  const full = places.filter(({ strength }) => strength === 1);
  return replaced(sample, full, (place) => tokensOf(given, place));
}

const isPartial = ({ strength }: GivenPlace) => strength < 1;

/** What a loop begins with, where something given is mixed with noise; noise is mixed by `level` elsewhere. */
export function noisyGiven(
  sample: Tensor,
  noise: Tensor,
  given: GivenTokens<Tensor>,
  places: readonly GivenPlace[],
  level: number,
): Tensor {
  return replaced(
    sample,
    places.filter(isPartial),
    (place) =>
      elementwise("level * n + (1.0 - level) * x", {
        n: slice(noise, 1, place.start, place.end),
        x: tokensOf(given, place),
      }, { scalars: { level: level * (1 - place.strength) } }),
  );
}

/** The velocity whose estimate is as near to what is given as its strength says. */
export function heldVelocity(
  velocity: Tensor,
  sample: Tensor,
  given: GivenTokens<Tensor>,
  places: readonly GivenPlace[],
  sigma: Tensor,
): Tensor {
  return replaced(velocity, places.filter(isPartial), (place) => {
    const own = (x: Tensor) => slice(x, 1, place.start, place.end);
    return elementwise("(1.0 - strength) * v + strength * (x - c) / s", {
      v: own(velocity),
      x: own(sample),
      c: tokensOf(given, place),
      s: sigma,
    }, { scalars: { strength: place.strength } });
  });
}

export interface Ltx2Given {
  /** Latents, normalised, [frames, height, width, channels]. */
  readonly latents: GivenTokens<DeviceTensor>;
  run(work: Work): Promise<void>;
}

/** `scale` is how many times longer the sides of the frames that are brought are. */
export function traceLtx2Given(
  session: Session,
  { vae }: Pick<Ltx2Parts, "vae">,
  { given: { first, keys }, grid, tileSide }: {
    readonly given: GivenShape;
    readonly grid: VideoGrid;
    readonly tileSide: number;
  },
  temporal: number,
  scale = 1,
): Ltx2Given {
  const size = { height: grid.rows, width: grid.columns, tileSide };
  const name = (name: string) => scale > 1 ? `${name} small` : name;
  const begin = first > 0
    ? traceLtx2Encoder(session, vae, { ...size, frames: first }, { name: name("encode") })
    : undefined;
  const others = keys.length > 0 ? traceKeys(session, vae, size, keys.length, name) : undefined;
  const count = (first - 1) * temporal + 1;
  return {
    latents: { first: begin?.latents, keys: others?.latents },
    async run(work) {
      const { task, images = [], video = [], width } = work.request;
      const frames = imageFrames(work.request, temporal);
      const imagesOf = (isFirst: boolean) =>
        images.filter((_, i) => (frames[i] === 0) === isFirst).map(({ data }) => data);
      const seen = (frame: Uint8Array | undefined) =>
        scale > 1 && frame ? smallerFrame(frame, width, scale) : frame;
      const own = task === "F2V" ? video.slice(-count) : imagesOf(true);
      await begin?.run(work, { length: own.length, at: (i) => seen(own[i]) });
      await others?.run(work, imagesOf(false).map(seen));
    },
  };
}

/** Images of a latent frame each, one after the other. */
function traceKeys(
  session: Session,
  vae: Ltx2Parts["vae"],
  size: { readonly height: number; readonly width: number; readonly tileSide: number },
  count: number,
  name: (name: string) => string,
): {
  readonly latents: DeviceTensor;
  run(work: Work, images: readonly ReturnType<VideoFrames["at"]>[]): Promise<void>;
} {
  const encoder = traceLtx2Encoder(session, vae, { ...size, frames: 1 }, {
    name: name("encode keys"),
    runs: count,
  });
  const { stage, latents } = encoder;
  const all = stage.tensor("key latents", [count, ...latents.shape.slice(1)]);
  const keep = stage.program(
    name("keep key"),
    { latents, all, shares: f32(count, 1, 1, 1) },
    ({ latents, all: sum, shares }) =>
      copyTo(elementwise("sum + shares * x", { sum, shares, x: latents }), all),
  );
  return {
    latents: all,
    async run(work, images) {
      for (const [i, image] of images.entries()) {
        await encoder.run(work, { length: 1, at: () => image });
        const shares = Float32Array.from({ length: count }, (_, k) => Number(k === i));
        await work.run([...i === 0 ? [clearing([all])] : [], keep.call({ shares })]);
      }
    },
  };
}

/** A frame whose sides are `scale` times shorter, in [-1, 1], by torch's bilinear filter, which sees four pixels. */
function smallerFrame(frame: Uint8Array, width: number, scale: number): Float32Array {
  const height = frame.length / 3 / width;
  const [rows, columns] = [smallerPlaces(height, scale), smallerPlaces(width, scale)];
  const made = new Float32Array(rows.length * columns.length * 3);
  let at = 0;
  for (const [top, bottom, down] of rows) {
    for (const [left, right, along] of columns) {
      for (let channel = 0; channel < 3; channel++, at++) {
        const pixel = (y: number, x: number) => frame[(y * width + x) * 3 + channel]!;
        const above = pixel(top, left) * (1 - along) + pixel(top, right) * along;
        const below = pixel(bottom, left) * (1 - along) + pixel(bottom, right) * along;
        made[at] = (above * (1 - down) + below * down) / 127.5 - 1;
      }
    }
  }
  return made;
}

/** The two places that each place of a shorter side lies between, and how near to the second. */
function smallerPlaces(side: number, scale: number): [number, number, number][] {
  return Array.from({ length: side / scale }, (_, i) => {
    const exact = (i + 0.5) * scale - 0.5;
    const first = Math.floor(exact);
    return [first, Math.min(first + 1, side - 1), exact - first];
  });
}
