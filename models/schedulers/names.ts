/** What samplers and noise schedules are called in requests: as ComfyUI calls them. */

/** Samplers of rectified flows. `dmd` has three noise levels of its own. */
export const FLOW_SAMPLERS = [
  "euler",
  "euler_ancestral",
  "heun",
  "dpmpp_2m",
  "uni_pc",
  "lcm",
  "dmd",
] as const;

/** Samplers of diffusion models. */
export const DIFFUSION_SAMPLERS = ["euler", "ddim", "pndm"] as const;

export type FlowSampler = (typeof FLOW_SAMPLERS)[number];
export type DiffusionSampler = (typeof DIFFUSION_SAMPLERS)[number];

/** How a step goes from one noise level to the next. */
export type SamplerName = FlowSampler | DiffusionSampler;

/** The samplers that requests choose from. */
export const SAMPLERS: readonly SamplerName[] = FLOW_SAMPLERS;

/** Every spacing. */
export const NOISE_SCHEDULES = [
  "simple",
  "sgm_uniform",
  "karras",
  "exponential",
  "beta",
] as const;

/** How the noise levels are spaced. */
export type NoiseScheduleName = (typeof NOISE_SCHEDULES)[number];

/** Steps of `dmd`, which has one for each of its noise levels. */
export const DMD_STEPS = 3;
