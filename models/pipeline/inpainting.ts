/**
 * Inpainting with any model: after every step the kept part becomes the given image again, with as much noise.
 * Source: diffusers `ZImageInpaintPipeline`, `Flux2KleinInpaintPipeline` and `StableDiffusionInpaintPipeline`.
 */
import {
  type Call,
  copyTo,
  type DeviceTensor,
  elementwise,
  f32,
  type Shape,
  type Tensor,
} from "../../runtime/mod.ts";
import { blurredEdge, softEdge } from "../../media/mask.ts";
import type { Stage } from "../memory/session.ts";
import { toSignedRange } from "./pixels.ts";
import type { PipelineRequest } from "./types.ts";

interface KeptOptions {
  readonly sample: DeviceTensor;
  /** The given image's latents without noise, of the shape of the sample. */
  readonly kept: DeviceTensor;
  readonly noise: Noise;
}

/** Noise as the generator draws it, and as the sample has it. */
export interface Noise extends Arranged {
  /** A mask, [..., rows, columns], and how it broadcasts over the sample, where noise is not drawn by rows and columns. */
  readonly mask?: Arranged;
}

interface Arranged {
  readonly shape: Shape;
  arrange(x: Tensor): Tensor;
}

interface KeptLatents {
  begin(request: PipelineRequest, noise: Float32Array): Call;
  /** Of a share of the image, and of the noise. */
  call(signal: number, sigma: number): Call;
}

export function traceKept(
  stage: Stage,
  { sample, kept, noise: drawn }: KeptOptions,
): KeptLatents {
  const { mask: painted = drawn } = drawn;
  const begin = stage.program(
    "mask",
    { noise: f32(...drawn.shape), mask: f32(...painted.shape) },
    ({ noise, mask }) => ({ noise: drawn.arrange(noise), mask: painted.arrange(mask) }),
  );
  const keep = stage.program(
    "keep",
    { sample, kept, ...begin.outputs, signal: f32(1), sigma: f32(1) },
    ({ sample: x, kept, noise, mask, signal, sigma }) => {
      const blend = "mask * x + (1.0 - mask) * (signal * kept + sigma * noise)";
      copyTo(elementwise(blend, { x, kept, noise, mask, signal, sigma }), sample);
    },
  );
  return {
    begin({ mask, width, height }, noise) {
      const [own] = mask ?? [];
      if (!own) throw new Error("Cannot keep a part of the image: the request has no mask");
      return begin.call({ noise, mask: maskLatents(own, { width, height }, painted.shape) });
    },
    call: (signal, sigma) => keep.call({ signal: [signal], sigma: [sigma] }),
  };
}

/** A mask, 255 where it is painted, in the `shape` of latents, [..., rows, columns]: the mean of each position's pixels. */
export function maskLatents(
  mask: Uint8Array,
  { width, height }: Pick<PipelineRequest, "width" | "height">,
  shape: Shape,
): Float32Array {
  const [rows, columns] = shape.slice(-2) as [number, number];
  const [down, across] = [height / rows, width / columns];
  const plane = new Float32Array(rows * columns);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const position = Math.floor(y / down) * columns + Math.floor(x / across);
      plane[position]! += mask[y * width + x]!;
    }
  }
  const whole = 255 * down * across;
  const planes = shape.slice(0, -2).reduce((product, size) => product * size, 1);
  const result = new Float32Array(planes * plane.length);
  for (let i = 0; i < result.length; i++) result[i] = plane[i % plane.length]! / whole;
  return result;
}

/** A mask is binary for what sees it: bytes from this one on are painted. */
const PAINTED = 128;

export interface CutOut {
  /** Pixels in [-1, 1]. */
  readonly whole: Float32Array<ArrayBuffer>;
  readonly pixels: Float32Array<ArrayBuffer>;
  /** 1 where it is painted, [height · width]; everywhere without a mask. */
  readonly mask: Float32Array<ArrayBuffer>;
}

/** The first image of a request with `hole`, in [-1, 1], where it is painted. */
export function cutOut({ images, mask, width, height }: PipelineRequest, hole: number): CutOut {
  const own = mask?.[0];
  const painted = Float32Array.from(
    { length: width * height },
    (_, i) => Number(!own || own[i]! >= PAINTED),
  );
  const whole = toSignedRange(images![0]!.data);
  const pixels = whole.map((value, i) => (painted[Math.floor(i / 3)] === 1 ? hole : value));
  return { whole, pixels, mask: painted };
}

/** Puts a finished image over the given one where a mask says so, and leaves the rest as it was given. */
export class Composition {
  readonly #given: Uint8Array;
  readonly #shares: Float32Array;

  /** @param request with a mask for its first image, which has the size of the result */
  constructor(request: PipelineRequest) {
    const { images, mask, maskBlur = 0, paddingMaskCrop, width, height } = request;
    this.#given = images![0]!.data;
    this.#shares = maskBlur > 0
      ? blurredEdge(mask![0]!, request, maskBlur, { isDoubled: paddingMaskCrop === undefined })
      : softEdge(mask![0]!, width, height);
  }

  /** Lays a frame, RGB in [0, 1] or bytes, over the given image; it is overwritten. */
  apply<Frame extends Float32Array | Uint8Array>(frame: Frame): Frame {
    const isBytes = frame instanceof Uint8Array;
    for (let i = 0; i < frame.length; i++) {
      const share = this.#shares[Math.floor(i / 3)]!;
      const given = isBytes ? this.#given[i]! : this.#given[i]! / 255;
      const value = given + share * (frame[i]! - given);
      frame[i] = isBytes ? Math.round(value) : value;
    }
    return frame;
  }
}

export function isInpainting({ task, mask }: Pick<PipelineRequest, "task" | "mask">): boolean {
  return task === "TI2I" && mask !== undefined;
}
