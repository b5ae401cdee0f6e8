/** Latents as transformers take them: how their tokens lie, and noise in them. */
import { elementwise, type Tensor } from "../../runtime/mod.ts";

/** How the tokens of an image lie. */
export interface TokenGrid {
  readonly rows: number;
  readonly columns: number;
}

/**
 * The tokens of an image.
 *
 * @param multiple pixels along a side of a token
 */
export function gridOf(
  { width, height }: { readonly width: number; readonly height: number },
  multiple: number,
): TokenGrid {
  return { rows: height / multiple, columns: width / multiple };
}

/** How many tokens there are. */
export function tokenCount({ rows, columns }: TokenGrid): number {
  return rows * columns;
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
