/** What samplers and noise schedules are called in requests: as ComfyUI calls them. */

/** Samplers: how a step goes from one noise level to the next. A model takes those of its kind. */
export const SAMPLERS = [
  "euler",
  "euler_ancestral",
  "heun",
  "dpmpp_2m",
  "uni_pc",
  "ddim",
  "pndm",
  "lcm",
  "dmd",
] as const;

/** One of {@linkcode SAMPLERS}. */
export type SamplerName = (typeof SAMPLERS)[number];

/** Samplers with noise levels of their own. */
export const OWN_SIGMAS: readonly SamplerName[] = ["pndm", "dmd"];

/** Schedules: how the noise levels are spaced. A model takes those of its kind. */
export const NOISE_SCHEDULES = [
  "simple",
  "sgm_uniform",
  "karras",
  "exponential",
  "beta",
] as const;

/** One of {@linkcode NOISE_SCHEDULES}. */
export type NoiseScheduleName = (typeof NOISE_SCHEDULES)[number];

/** Steps of `dmd`, which has one for each of its noise levels. */
export const DMD_STEPS = 3;
