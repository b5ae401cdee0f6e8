/**
 * What a video is made from beside its prompts: latent frames that it begins with; images for other frames and a video that LoRAs
 * see, whose tokens come after those of the video; a sound. What has a strength below 1 is noisy by the rest of it, and every step
 * brings it nearer.
 * Source: diffusers `LTX2ConditionPipeline`, `LTX2InContextPipeline`, and `freeze_audio` of `LTX2DFRPipeline`.
 */
import { concat, elementwise, slice, type Tensor } from "../../../runtime/mod.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { controlOf, type ControlVideo } from "./control.ts";
import { type VideoGrid, videoTokens } from "./positions.ts";
import { SettingError } from "../../setting_error.ts";

/** Frames of a clip that a continued one begins with, where it has so many. */
export const CONTINUED_FRAMES = 17;

export interface GivenShape {
  /** Latent frames that are given first, and how much they count, 0 to 1. */
  readonly first: number;
  readonly firstStrength: number;
  readonly keys: readonly KeyFrame[];
  readonly control?: ControlVideo | undefined;
  /** Whether the sound is given. */
  readonly hasSound: boolean;
}

/** An image for a frame that is not the first. */
interface KeyFrame {
  readonly frame: number;
  readonly strength: number;
}

/** Frames that the images of a request are for: those that it says, else such as begin latent frames, evenly spread. */
export function imageFrames(
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
  const hasSound = request.audio !== undefined;
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
      hasSound,
    };
  }
  const nothing = { first: 0, firstStrength: 1, keys: [], hasSound };
  if (task === "V2V") return { ...nothing, control: controlOf(request) };
  if (task !== "F2V") return nothing;
  const known = Math.floor((Math.min(video.length, CONTINUED_FRAMES) - 1) / temporal) + 1;
  // At least one latent frame is new, where there are two.
  return { ...nothing, first: Math.min(known, Math.max(1, frames - 1)) };
}

/** Tokens of what is given, [1, tokens, channels] each. */
export type GivenTokens<T> = {
  readonly first?: T | undefined;
  readonly keys?: T | undefined;
  readonly control?: T | undefined;
  readonly sound?: T | undefined;
};

/** How many tokens of a loop are the video's, those of images and of a control video, and the sound's. */
export function loopTokens(
  { grid, given: { keys, control } }: {
    readonly grid: VideoGrid;
    readonly given: GivenShape;
  },
): { readonly video: number; readonly more: number } {
  const area = grid.rows * grid.columns;
  const seen = control ? videoTokens(grid) / control.scale ** 2 : 0;
  return { video: videoTokens(grid), more: keys.length * area + seen };
}

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
  shape: {
    readonly given: GivenShape;
    readonly grid: VideoGrid;
    /** Latents of the sound. */
    readonly sound: number;
  },
): GivenPlace[] {
  const { given: { first, firstStrength, keys, control, hasSound }, grid, sound } = shape;
  const area = grid.rows * grid.columns;
  const { video, more } = loopTokens(shape);
  const soundStart = video + more;
  const place = (kind: GivenPlace["kind"], start: number, end: number, strength = 1, from = 0) => ({
    kind,
    start,
    end,
    strength,
    from,
  });
  return [
    ...first > 0 ? [place("first", 0, first * area, firstStrength)] : [],
    ...keys.map(({ strength }, i) => {
      const start = video + i * area;
      return place("keys", start, start + area, strength, i * area);
    }),
    ...control ? [place("control", video + keys.length * area, soundStart, control.strength)] : [],
    ...hasSound ? [place("sound", soundStart, soundStart + sound)] : [],
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
