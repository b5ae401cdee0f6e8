/**
 * How training mixes noise into latents, and what the network's output says of them: x = α(σ)·x0 + σ·noise. A rectified flow has
 * α = 1 − σ. Diffusion is written with α = 1 whatever the reference's class keeps: its samples times √(σ² + 1).
 */

/** Weights of a sample and of the network's raw output in a sum of both. */
export type Weights = readonly [sample: number, output: number];

export interface Process {
  /** α, the share of x0 in a sample at level σ. */
  signal(sigma: number): number;
  /** What a sample is multiplied by before the network. */
  inputScale(sigma: number): number;
  /** The network's estimate of x0, the denoised sample D. */
  denoised(sigma: number): Weights;
  /** (x − D) / σ, along which an ODE solver moves the sample. */
  slope(sigma: number): Weights;
  /** The level σ at which ln(α/σ) is λ. */
  level(lambda: number): number;
  /** What the network is told of a level σ that lies between the steps. */
  timestep(sigma: number): number;
}

/** The output is the velocity, noise − x0. */
export function flowProcess(trainTimesteps: number): Process {
  return {
    signal: (sigma) => 1 - sigma,
    inputScale: () => 1,
    denoised: (sigma) => [1, -sigma],
    slope: () => [0, 1],
    level: (lambda) => 1 / (Math.exp(lambda) + 1),
    timestep: (sigma) => Math.fround(sigma * trainTimesteps),
  };
}

export const PREDICTION_TYPES = ["epsilon", "v_prediction", "sample"] as const;

/** Source: Salimans and Ho 2022, "Progressive Distillation for Fast Sampling of Diffusion Models", for v. */
export function diffusionProcess(
  prediction: (typeof PREDICTION_TYPES)[number],
  timestep: Process["timestep"],
): Process {
  const weights: Pick<Process, "denoised" | "slope"> = {
    epsilon: {
      denoised: (sigma: number): Weights => [1, -sigma],
      slope: (): Weights => [0, 1],
    },
    v_prediction: {
      denoised: (sigma: number): Weights => [1 / (sigma ** 2 + 1), -sigma / spread(sigma)],
      slope: (sigma: number): Weights => [sigma / (sigma ** 2 + 1), 1 / spread(sigma)],
    },
    sample: {
      denoised: (): Weights => [0, 1],
      slope: (sigma: number): Weights => [1 / sigma, -1 / sigma],
    },
  }[prediction];
  return {
    signal: () => 1,
    inputScale: (sigma) => 1 / spread(sigma),
    ...weights,
    level: (lambda) => Math.exp(-lambda),
    timestep,
  };
}

/**
 * The network's input and output are scaled by the level and by `data`, the standard deviation of latents. Source: Karras et al.
 * 2022, "Elucidating the Design Space of Diffusion-Based Generative Models".
 */
export function edmProcess(prediction: "epsilon" | "v_prediction", data: number): Process {
  const wide = (sigma: number) => Math.sqrt(sigma ** 2 + data ** 2);
  const sign = prediction === "epsilon" ? 1 : -1;
  return {
    signal: () => 1,
    inputScale: (sigma) => 1 / wide(sigma),
    denoised: (sigma) => [data ** 2 / wide(sigma) ** 2, sign * sigma * data / wide(sigma)],
    slope: (sigma) => [sigma / wide(sigma) ** 2, -sign * data / wide(sigma)],
    level: (lambda) => Math.exp(-lambda),
    timestep: (sigma) => Math.fround(Math.log(sigma) / 4),
  };
}

/** λ, half the logarithm of the signal-to-noise ratio. */
export function halfLogSnr(process: Process, sigma: number): number {
  return Math.log(process.signal(sigma) / sigma);
}

/** √(σ² + 1): the standard deviation of latents of unit variance at level σ. */
export function spread(sigma: number): number {
  return Math.sqrt(sigma ** 2 + 1);
}
