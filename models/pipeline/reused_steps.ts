/**
 * Steps of a flow that take the velocity of the last computed step.
 * Source: "Timestep Embedding Tells: It's Time to Cache for Video Diffusion Model" (TeaCache, Liu et al. 2024), with the
 * sinusoidal embedding, so that all is known before the first step.
 */
import { timestepEmbedding } from "../blocks/embeddings.ts";

/** Models and LoRAs that are distilled to few steps take fewer. */
const FEWEST_STEPS = 16;
/** Share of the steps that give an image its shape. */
const SHAPING_SHARE = 0.4;
/** Change of the timestep embedding, summed since the last computed step, below which its velocity is used again. */
const MOST_CHANGE = 0.8;
const CHANNELS = 256;

/** Indices of the steps of `quality: high` that are not computed: never the first ones, the last one, or any of few steps. */
export function reusingSteps(timesteps: Float64Array): number[] {
  const { length } = timesteps;
  if (length < FEWEST_STEPS) return [];
  const embeddings = timestepEmbedding([...timesteps], CHANNELS);
  const row = (i: number) => embeddings.subarray(i * CHANNELS, (i + 1) * CHANNELS);
  const reused: number[] = [];
  let change = 0;
  for (let i = Math.ceil(SHAPING_SHARE * length); i < length - 1; i++) {
    change += relativeChange(row(i - 1), row(i));
    if (change < MOST_CHANGE) reused.push(i);
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
