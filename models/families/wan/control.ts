/**
 * VACE's control: a clip cut by a mask into what is kept and what is redrawn, the mask, and reference images.
 * Source: Jiang et al. 2025, "VACE: All-in-One Video Creation and Editing"; diffusers `WanVACEPipeline`.
 */
import { resize } from "../../../media/resize.ts";
import {
  concat,
  copyTo,
  type DeviceTensor,
  elementwise,
  f32,
  writing,
} from "../../../runtime/mod.ts";
import {
  traceVideoEncoder,
  type VideoEncoder,
  type VideoFrames,
} from "../../pipeline/video_coders.ts";
import { wanVideoCodec } from "../../pipeline/wan_coders.ts";
import type { Session } from "../../memory/session.ts";
import { toSignedRange } from "../../pipeline/pixels.ts";
import type { InputImage, PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import type { WanParts } from "./config.ts";
import { type Given, type GivenKind, type GivenShape, placedFrames } from "./given.ts";
import { patchifyClip } from "./patches.ts";

/** Byte of a mask from which on a pixel is redrawn. */
const ANEW = 128;

export function traceControl(
  session: Session,
  { transformer: { config }, vae }: WanParts,
  shape: GivenShape,
  { references, hasFrames }: Extract<GivenKind, { kind: "control" }>,
): Given {
  const { frames, height, width } = shape;
  const { scale_factor_spatial: scale, scale_factor_temporal: temporal } = vae.config;
  const size = { width: width * scale, height: height * scale };
  const pixelFrames = 1 + (frames - 1) * temporal;
  const imageEncoder = references > 0
    ? traceVideoEncoder(session, wanVideoCodec(vae), { ...shape, frames: 1 }, {
      name: "references",
      runs: references,
    })
    : undefined;
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), shape, {
    runs: hasFrames ? 2 : 1,
  });
  const keep = (name: string, { stage, latents }: VideoEncoder, target: DeviceTensor) =>
    stage.program(`keep ${name}`, { latents }, ({ latents }) => copyTo(latents, target));
  const kept = encoder.stage.tensor("kept", encoder.latents.shape);
  const keepKept = keep("kept", encoder, kept);
  const images = Array.from(
    { length: references },
    (_, i) => session.tensor(`reference ${i}`, imageEncoder!.latents.shape),
  );
  const keepImages = images.map((target, i) => keep(`reference ${i}`, imageEncoder!, target));
  const total = references + frames;
  const control = encoder.stage.program(
    "control",
    { kept, anew: encoder.latents, images, mask: f32(total, height, width, scale ** 2) },
    ({ kept, anew, images, mask }) => {
      // The last image comes first, as the reference has them; nothing of them is redrawn.
      const pairs = images.toReversed().map((x) => concat([x, elementwise("0.0 * x", { x })], 3));
      const clip = concat([...pairs, concat([kept, anew], 3)], 0);
      return patchifyClip(config, concat([clip, mask], 3));
    },
  );
  const blocks = config.vace_layers.length;
  const scales = session.tensor("control scales", [1, 1, blocks]);
  return {
    tokens: { control: control.outputs, scales },
    run: async (work: Work) => {
      const { request } = work;
      const parts = controlParts(request, pixelFrames, size);
      for (const [i, image] of (request.references ?? []).entries()) {
        await imageEncoder!.run(work, [letterbox(image, size, scale)]);
        await work.run([keepImages[i]!.call({})]);
      }
      await encoder.run(work, parts.kept);
      await work.run([keepKept.call({})]);
      if (hasFrames) await encoder.run(work, parts.anew);
      const { controlScale: [only = 1, ...others] = [] } = request;
      const weights = others.length > 0 ? [only, ...others] : new Array<number>(blocks).fill(only);
      const mask = new Float32Array(total * height * width * scale ** 2);
      const folded = foldMasks(parts.mask, pixelFrames, { frames, height, width, scale });
      mask.set(folded, mask.length - folded.length);
      await work.run([control.call({ mask }), writing(scales, weights)]);
    },
  };
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** The mask of a frame, a byte for each pixel; nothing where all of it is redrawn. */
type MaskOf = (frame: number) => Uint8Array | undefined;

interface ControlParts {
  readonly kept: VideoFrames;
  readonly anew: VideoFrames;
  readonly mask: MaskOf;
}

function controlParts(request: PipelineRequest, length: number, size: Size): ControlParts {
  const { task, video, mask: masks } = request;
  const placed = placedFrames(request, length);
  const isClip = task === "V2V";
  const frame = (i: number) => isClip ? video![Math.min(i, video!.length - 1)] : placed.get(i);
  const nothing = new Uint8Array(size.width * size.height);
  const mask: MaskOf = (i) =>
    isClip ? masks?.[Math.min(i, masks.length - 1)] : placed.has(i) ? nothing : undefined;
  const part = (isAnew: boolean): VideoFrames => ({
    length,
    at: (i) => {
      const [pixels, own] = [frame(i), mask(i)];
      if (!own || !pixels) return isAnew ? pixels : undefined;
      const values = toSignedRange(pixels);
      return values.map((value, k) => (own[Math.floor(k / 3)]! >= ANEW) === isAnew ? value : 0);
    },
  });
  return { kept: part(false), anew: part(true), mask };
}

/** Masks, [frames, height, width, scale²]: a latent position's pixels as its channels, from the frame nearest in time. */
function foldMasks(
  mask: MaskOf,
  pixelFrames: number,
  { frames, height, width, scale }: {
    readonly frames: number;
    readonly height: number;
    readonly width: number;
    readonly scale: number;
  },
): Float32Array {
  const result = new Float32Array(frames * height * width * scale ** 2);
  let to = 0;
  for (let t = 0; t < frames; t++) {
    const own = mask(Math.floor((t + 0.5) * pixelFrames / frames));
    for (let position = 0; position < height * width; position++) {
      const [top, left] = [Math.floor(position / width) * scale, position % width * scale];
      for (let k = 0; k < scale ** 2; k++) {
        const pixel = (top + Math.floor(k / scale)) * width * scale + left + k % scale;
        result[to++] = own ? own[pixel]! / 255 : 1;
      }
    }
  }
  return result;
}

/**
 * An image in the middle of white, in [-1, 1]: like the reference, first to whole latents of `side` pixels by Lanczos, then
 * as PyTorch's `interpolate` scales with `bilinear`, without a filter against aliasing.
 */
function letterbox(image: InputImage, size: Size, side: number): Float32Array {
  const whole = (length: number) => Math.max(side, length - length % side);
  const { width, height, data } = resize(image, whole(image.width), whole(image.height));
  const scale = Math.min(size.height / height, size.width / width);
  const [rows, columns] = [Math.floor(height * scale), Math.floor(width * scale)];
  const [top, left] = [(size.height - rows) >> 1, (size.width - columns) >> 1];
  const canvas = new Float32Array(size.width * size.height * 3).fill(1);
  const [down, right] = [neighbours(height, rows), neighbours(width, columns)];
  for (const [y, [y0, y1, dy]] of down.entries()) {
    for (const [x, [x0, x1, dx]] of right.entries()) {
      for (let c = 0; c < 3; c++) {
        const at = (row: number, column: number) => data[(row * width + column) * 3 + c]!;
        const above = at(y0, x0) * (1 - dx) + at(y0, x1) * dx;
        const below = at(y1, x0) * (1 - dx) + at(y1, x1) * dx;
        const value = above * (1 - dy) + below * dy;
        canvas[((top + y) * size.width + left + x) * 3 + c] = value / 127.5 - 1;
      }
    }
  }
  return canvas;
}

function neighbours(from: number, to: number): [before: number, after: number, share: number][] {
  return Array.from({ length: to }, (_, i) => {
    const place = Math.max(0, (i + 0.5) * from / to - 0.5);
    const before = Math.min(Math.floor(place), from - 1);
    return [before, Math.min(before + 1, from - 1), place - before];
  });
}
