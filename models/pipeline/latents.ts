/** Latents as transformers take them: how their tokens lie, and noise in them. */
import { elementwise, type Tensor } from "../../runtime/mod.ts";

/** The tokens of an image: how many rows, and how many in a row. */
export interface TokenGrid {
  readonly rows: number;
  readonly columns: number;
}

/** Latents along the sides of an image. */
export interface LatentSize {
  readonly height: number;
  readonly width: number;
}

/**
 * The grid of tokens of an image.
 *
 * @param multiple pixels along a side of a token
 */
export function gridOf(
  { width, height }: { readonly width: number; readonly height: number },
  multiple: number,
): TokenGrid {
  return { rows: height / multiple, columns: width / multiple };
}

/** The number of tokens in a grid. */
export function tokenCount({ rows, columns }: TokenGrid): number {
  return rows * columns;
}

/** The size in latents of a grid of tokens. */
export function latentSize({ rows, columns }: TokenGrid, side: number): LatentSize {
  return { height: rows * side, width: columns * side };
}

/**
 * Latents on their way to noise, (1 − σ) · x + σ · noise, as flow matching goes it.
 *
 * Source: Liu et al. 2022, "Flow Straight and Fast"; diffusers `FlowMatchEulerDiscreteScheduler.scale_noise`.
 */
export function noisyLatents(x: Tensor, noise: Tensor, level: number): Tensor {
  const sigma = noise.graph.constant("noise level", [1], "f32", [level]);
  return elementwise("(1.0 - sigma) * x + sigma * noise", { x, noise, sigma });
}
