/**
 * Steps of Wan 2.1 that take the velocity of the last computed step.
 * Source: "Timestep Embedding Tells: It's Time to Cache for Video Diffusion Model" (TeaCache, Liu et al. 2024), with its
 * authors' coefficients and thresholds; the original takes what its blocks added.
 */
import type { WanTransformerConfig } from "./config.ts";
import { BLOCK_MODULATION, TIMESTEP_ROWS } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";
import { relativeChange } from "../../pipeline/reused_steps.ts";

/** How far the output of a checkpoint moves when its timestep does. */
export interface TeaCache {
  /** A polynomial: the change of the output by the change of the projected timestep; the highest power first. */
  readonly coefficients: readonly number[];
  /** Change, summed since the last computed step, below which a step is spared. */
  readonly threshold: number;
}

const FIRST_STEPS = 5;

const T2V_1_3B: TeaCache = {
  coefficients: [-5.21862437e4, 9.23041404e3, -5.28275948e2, 1.36987616e1, -4.99875664e-2],
  threshold: 0.05,
};
const T2V_14B: TeaCache = {
  coefficients: [-3.03318725e5, 4.90537029e4, -2.65530556e3, 5.87365115e1, -3.15583525e-1],
  threshold: 0.14,
};
const I2V_480P: TeaCache = {
  coefficients: [2.57151496e5, -3.54229917e4, 1.40286849e3, -1.35890334e1, 1.32517977e-1],
  threshold: 0.13,
};
const I2V_720P: TeaCache = {
  coefficients: [8.1070546e3, 2.13393892e3, -3.72934672e2, 1.66203073e1, -4.17769401e-2],
  threshold: 0.18,
};

/** Area in pixels up to which a request is one for the checkpoint of 480p: both have the same configuration. */
const MAX_480P = 720 * 720;

export function teaCacheOf(config: WanTransformerConfig, pixels: number): TeaCache | undefined {
  if (!config._class_name.startsWith("Wan")) return undefined;
  const dim = hiddenSize(config);
  if (dim === 1536) return T2V_1_3B;
  if (dim !== 5120) return undefined;
  if (config.image_dim === null) return config.in_channels === 16 ? T2V_14B : undefined;
  return pixels <= MAX_480P ? I2V_480P : I2V_720P;
}

/** The steps that are spared. The first ones and the last one are always computed. */
export function sparedSteps(
  { coefficients, threshold }: TeaCache,
  rows: Float32Array,
  steps: number,
  dim: number,
): number[] {
  const projected = (i: number) => {
    const start = i * TIMESTEP_ROWS * dim;
    return rows.subarray(start, start + BLOCK_MODULATION.length * dim);
  };
  const spared: number[] = [];
  let change = 0;
  for (let i = FIRST_STEPS; i < steps - 1; i++) {
    const moved = relativeChange(projected(i - 1), projected(i));
    change += coefficients.reduce((sum, coefficient) => sum * moved + coefficient, 0);
    if (change < threshold) spared.push(i);
    else change = 0;
  }
  return spared;
}
