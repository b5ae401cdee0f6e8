/** From the pixels of what a video is made from to latents. Source: diffusers `LTX2ConditionPipeline`. */
import { clearing, copyTo, type DeviceTensor, elementwise, f32 } from "../../../runtime/mod.ts";
import type { Session } from "../../memory/session.ts";
import { traceLtx2Encoder } from "../../pipeline/ltx2_coders.ts";
import type { VideoFrames } from "../../pipeline/video_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import { type GivenShape, type GivenTokens, imageFrames } from "./given.ts";
import type { Ltx2Parts } from "./parts.ts";
import { smallerGrid, type VideoGrid } from "./positions.ts";

export interface Ltx2Given {
  /** Latents, normalised, [frames, height, width, channels]. */
  readonly latents: GivenTokens<DeviceTensor>;
  run(work: Work): Promise<void>;
}

/** `scale` is how many times longer the sides of the frames that are brought are. */
export function traceLtx2Given(
  session: Session,
  { vae }: Pick<Ltx2Parts, "vae">,
  { given: { first, keys, control }, grid, tileSide }: {
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
  const smaller = control && smallerGrid(grid, control.scale);
  const steering = smaller && traceLtx2Encoder(session, vae, {
    frames: smaller.frames,
    height: smaller.rows,
    width: smaller.columns,
    tileSide,
  }, { name: name("encode control") });
  const count = (first - 1) * temporal + 1;
  return {
    latents: { first: begin?.latents, keys: others?.latents, control: steering?.latents },
    async run(work) {
      const { task, images = [], video = [], width } = work.request;
      const frames = imageFrames(work.request, temporal);
      const imagesOf = (isFirst: boolean) =>
        images.filter((_, i) => (frames[i] === 0) === isFirst).map(({ data }) => data);
      const reduced = (frame: Uint8Array | undefined, scale: number) =>
        scale > 1 && frame ? smallerFrame(frame, width, scale) : frame;
      const seen = (frame: Uint8Array | undefined) => reduced(frame, scale);
      const own = task === "F2V" ? video.slice(-count) : imagesOf(true);
      await begin?.run(work, { length: own.length, at: (i) => seen(own[i]) });
      await others?.run(work, imagesOf(false).map(seen));
      await steering?.run(work, {
        length: video.length,
        at: (i) => reduced(video[i], scale * control!.scale),
      });
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
