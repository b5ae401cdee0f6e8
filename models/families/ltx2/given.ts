/**
 * What a video is made from beside its prompts: latent frames that it begins with, and an image that it ends with, whose tokens
 * come after those of the video.
 * Source: diffusers `LTX2ConditionPipeline`, where what is given is given in full.
 */
import { concat, type DeviceTensor, slice, type Tensor } from "../../../runtime/mod.ts";
import type { Session } from "../../memory/session.ts";
import { traceLtx2Encoder } from "../../pipeline/ltx2_coders.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import type { Ltx2Parts } from "./parts.ts";
import type { VideoGrid } from "./positions.ts";

/** Frames of a clip that a continued one begins with, where it has so many. */
export const CONTINUED_FRAMES = 17;

export interface GivenShape {
  /** Latent frames that are given first. */
  readonly first: number;
  readonly hasLast: boolean;
}

export function givenOf(
  { task, images = [], video = [] }: PipelineRequest,
  { frames }: VideoGrid,
  temporal: number,
): GivenShape {
  if (task === "I2V") return { first: 1, hasLast: images.length > 1 };
  if (task !== "F2V") return { first: 0, hasLast: false };
  const known = Math.floor((Math.min(video.length, CONTINUED_FRAMES) - 1) / temporal) + 1;
  // At least one latent frame is new, where there are two.
  return { first: Math.min(known, Math.max(1, frames - 1)), hasLast: false };
}

/** Tokens of what is given, [1, tokens, channels] each. */
export type GivenTokens<T> = {
  readonly first?: T | undefined;
  readonly last?: T | undefined;
};

/** The sample with what is given in the place of its own tokens; `last` stands from `end` on. */
export function withGiven(
  sample: Tensor,
  { first, last }: GivenTokens<Tensor>,
  end: number,
): Tensor {
  const begin = first?.dim(1) ?? 0;
  const rest = end + (last?.dim(1) ?? 0);
  if (!first && !last) return sample;
  return concat([
    ...first ? [first] : [],
    ...begin < end ? [slice(sample, 1, begin, end)] : [],
    ...last ? [last] : [],
    slice(sample, 1, rest),
  ], 1);
}

export interface Ltx2Given {
  /** Latents, normalised, [frames, height, width, channels]. */
  readonly latents: GivenTokens<DeviceTensor>;
  run(work: Work): Promise<void>;
}

/** `half` where frames are brought at twice the size. */
export function traceLtx2Given(
  session: Session,
  { vae }: Pick<Ltx2Parts, "vae">,
  { given: { first, hasLast }, grid, tileSide }: {
    readonly given: GivenShape;
    readonly grid: VideoGrid;
    readonly tileSide: number;
  },
  temporal: number,
  half?: "half" | undefined,
): Ltx2Given {
  const size = { height: grid.rows, width: grid.columns, tileSide };
  const name = (name: string) => half ? `${name} ${half}` : name;
  const begin = first > 0
    ? traceLtx2Encoder(session, vae, { ...size, frames: first }, { name: name("encode") })
    : undefined;
  const end = hasLast
    ? traceLtx2Encoder(session, vae, { ...size, frames: 1 }, { name: name("encode last") })
    : undefined;
  const count = (first - 1) * temporal + 1;
  return {
    latents: { first: begin?.latents, last: end?.latents },
    async run(work) {
      const { task, images = [], video = [], width } = work.request;
      const frames = task === "F2V"
        ? video.slice(-count)
        : images.slice(0, 1).map(({ data }) => data);
      const seen = (frame: Uint8Array | undefined) =>
        half && frame ? halfFrame(frame, width) : frame;
      await begin?.run(work, { length: frames.length, at: (i) => seen(frames[i]) });
      await end?.run(work, { length: 1, at: () => seen(images[1]!.data) });
    },
  };
}

/** The means of two by two pixels, in [-1, 1]: what torch's bilinear filter gives at half the size. */
export function halfFrame(frame: Uint8Array, width: number): Float32Array {
  const row = width * 3;
  const half = row / 2;
  return Float32Array.from({ length: frame.length / 4 }, (_, i) => {
    const [y, x] = [Math.floor(i / half), i % half];
    const at = 2 * y * row + Math.floor(x / 3) * 6 + x % 3;
    const sum = frame[at]! + frame[at + 3]! + frame[at + row]! + frame[at + row + 3]!;
    return sum / 4 / 127.5 - 1;
  });
}
