/** What samplers and noise schedules are called in requests: as ComfyUI calls them. */

/** Samplers: how a step goes from one noise level to the next. A model takes those of its kind. */
export const SAMPLERS = [
  "euler",
  "euler_ancestral",
  "heun",
  "dpm_2",
  "dpm_2_ancestral",
  "lms",
  "dpmpp_2s",
  "dpmpp_2s_ancestral",
  "dpmpp_sde",
  "dpmpp_2m",
  "dpmpp_2m_sde",
  "dpmpp_3m_sde",
  "uni_pc",
  "deis",
  "ddim",
  "ddpm",
  "pndm",
  "er_sde",
  "res_multistep",
  "lcm",
  "tcd",
  "dmd",
] as const;

/** One of {@linkcode SAMPLERS}. */
export type SamplerName = (typeof SAMPLERS)[number];

/** Samplers with noise levels of their own, and the sampler that is nearest to each on other levels. */
export const OWN_SIGMAS: ReadonlyMap<SamplerName, SamplerName> = new Map([
  ["pndm", "lms"],
  ["tcd", "lcm"],
  ["dmd", "lcm"],
]);

/** Schedules: how the noise levels are spaced. A model takes those of its kind. */
export const NOISE_SCHEDULES = [
  "normal",
  "simple",
  "sgm_uniform",
  "ddim_uniform",
  "karras",
  "exponential",
  "beta",
  "kl_optimal",
  "align_your_steps",
] as const;

/** One of {@linkcode NOISE_SCHEDULES}. */
export type NoiseScheduleName = (typeof NOISE_SCHEDULES)[number];

/** Steps of `dmd`, which has one for each of its noise levels. */
export const DMD_STEPS = 3;
