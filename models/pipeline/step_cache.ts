/** Steps that can do without the transformer. */
import { timestepEmbedding } from "../blocks/embeddings.ts";

/** Share of the steps that give an image its shape. */
const SHAPING_SHARE = 0.4;
/** Change of the timestep embedding, summed since the last computed step, below which its velocity is used again. */
const MOST_CHANGE = 0.8;

/**
 * The steps that `quality: high` takes with the velocity of the last step that was computed: those whose timestep
 * embedding has changed little since then. The first ones, which give the image its shape, and the last one are
 * always computed; so is every step of models that were made for a few.
 *
 * Source: "Timestep Embedding Tells: It's Time to Cache for Video Diffusion Model" (TeaCache, Liu et al. 2024), with
 * the sinusoidal embedding instead of what the model makes of it, so that all is known before the first step.
 */
export function reusingSteps(timesteps: readonly number[], dim: number): number[] {
  const embeddings = timestepEmbedding(timesteps, dim);
  const row = (i: number) => embeddings.subarray(i * dim, (i + 1) * dim);
  const reused: number[] = [];
  let change = 0;
  for (let i = Math.ceil(SHAPING_SHARE * timesteps.length); i < timesteps.length - 1; i++) {
    change += relativeChange(row(i - 1), row(i));
    if (i > 0 && change < MOST_CHANGE) reused.push(i);
    else change = 0;
  }
  return reused;
}

/** How much values change: their mean difference as a share of their mean magnitude before. */
export function relativeChange(before: Float32Array, after: Float32Array): number {
  let [difference, magnitude] = [0, 0];
  before.forEach((value, i) => {
    difference += Math.abs(after[i]! - value);
    magnitude += Math.abs(value);
  });
  return difference / magnitude;
}
