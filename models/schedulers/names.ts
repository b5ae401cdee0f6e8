/** What samplers and noise schedules are called in requests: as ComfyUI calls them. */

/** How a step goes from one noise level to the next. `dmd` has three noise levels of its own. */
export type SamplerName =
  | "euler"
  | "euler_ancestral"
  | "heun"
  | "dpmpp_2m"
  | "uni_pc"
  | "lcm"
  | "dmd";

/** Every sampler. */
export const SAMPLERS: readonly SamplerName[] = [
  "euler",
  "euler_ancestral",
  "heun",
  "dpmpp_2m",
  "uni_pc",
  "lcm",
  "dmd",
];

/** How the noise levels are spaced. */
export type NoiseScheduleName = "simple" | "sgm_uniform" | "karras" | "exponential" | "beta";

/** Every spacing. */
export const NOISE_SCHEDULES: readonly NoiseScheduleName[] = [
  "simple",
  "sgm_uniform",
  "karras",
  "exponential",
  "beta",
];

/** Steps of `dmd`, which has one for each of its noise levels. */
export const DMD_STEPS = 3;
