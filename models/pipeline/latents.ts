/** Latents as tokens, and where the sample begins: with noise, or with an input image's latents and noise in them. */
import {
  type DeviceTensor,
  elementCount,
  elementwise,
  f32,
  type InputSpec,
  type Shape,
  slice,
  type Tensor,
} from "../../runtime/mod.ts";
import { posteriorLatents } from "../autoencoders/kl/posterior.ts";
import { rearrange } from "../rearrange.ts";
import { TorchGenerator } from "../schedulers/noise.ts";
import type { Schedule } from "../schedulers/mod.ts";
import type { PipelineRequest } from "./types.ts";

export interface TokenGrid {
  readonly rows: number;
  readonly columns: number;
}

/** Latents along the sides of an image. */
export interface LatentSize {
  readonly height: number;
  readonly width: number;
}

/** The grid of tokens of an image, each `multiple` pixels along a side. */
export function gridOf(
  { width, height }: { readonly width: number; readonly height: number },
  multiple: number,
): TokenGrid {
  return { rows: height / multiple, columns: width / multiple };
}

export function tokenCount({ rows, columns }: TokenGrid): number {
  return rows * columns;
}

export function latentSize({ rows, columns }: TokenGrid, side: number): LatentSize {
  return { height: rows * side, width: columns * side };
}

/** Latents with as much noise as a run begins with. Source: diffusers `scale_noise` and `add_noise`. */
export function noisyLatents(
  x: Tensor,
  noise: Tensor,
  { sigmas, signal }: Pick<Schedule, "sigmas" | "signal">,
): Tensor {
  const level = sigmas[0]!;
  const shares = noise.graph.constant("noise level", [2], "f32", [signal(level), level]);
  const [kept, sigma] = [slice(shares, 0, 0, 1), slice(shares, 0, 1, 2)];
  return elementwise("kept * x + sigma * noise", { x, noise, kept, sigma });
}

interface StartInputs {
  readonly moments: DeviceTensor | undefined;
  readonly momentNoise: InputSpec | undefined;
}

export class StartImage {
  readonly inputs: StartInputs;
  readonly #tokens: (latents: Tensor) => Tensor;

  /** Moments [1, height, width, 2·channels]; noise [1, channels, height, width]; `tokens` takes [1, height, width, channels]. */
  constructor(
    moments: DeviceTensor | undefined,
    noise: Shape,
    tokens: (latents: Tensor) => Tensor,
  ) {
    this.inputs = { moments, momentNoise: moments && f32(...noise) };
    this.#tokens = tokens;
  }

  trace(
    { moments, momentNoise }: { readonly [Name in keyof StartInputs]: Tensor | undefined },
  ): Tensor | undefined {
    return moments && this.#tokens(posteriorLatents(moments, momentNoise));
  }

  /** Noise in the order of the reference: that of the image's latents comes first. */
  draw(
    draw: () => Float32Array,
  ): { readonly momentNoise: Float32Array | undefined; readonly noise: Float32Array } {
    const momentNoise = this.inputs.moments && draw();
    return { momentNoise, noise: draw() };
  }
}

/** Noise in the order of the reference, which draws none for an image's latents that are given. */
export function noiseOf({ seed, images }: PipelineRequest, shape: Shape): () => Float32Array {
  const generator = new TorchGenerator(seed);
  let given = images?.[0]?.latents ? new Float32Array(elementCount(shape)) : undefined;
  return () => {
    const known = given;
    given = undefined;
    return known ?? generator.randn(elementCount(shape));
  };
}

export function beginSample(
  noise: Tensor,
  image: Tensor | undefined,
  { schedule, isMasked }: { readonly schedule: Schedule; readonly isMasked: boolean },
): { readonly sample: Tensor; readonly kept: Tensor | undefined } {
  return {
    sample: image ? noisyLatents(image, noise, schedule) : scaledNoise(noise, schedule),
    kept: isMasked ? image : undefined,
  };
}

function scaledNoise(noise: Tensor, { noiseScale: scale }: Schedule): Tensor {
  if (scale === 1) return noise;
  const factor = noise.graph.constant("noise scale", [1], "f32", [scale]);
  return elementwise("x * factor", { x: noise, factor }, { name: "noise" });
}

/** A latent image, [1, channels, rows, columns], as tokens. */
export function gridTokens(image: Tensor): Tensor {
  return rearrange(image, "1 c y x -> 1 (y x) c");
}
