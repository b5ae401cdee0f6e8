/** The model gives v = noise − x0; a sample at level σ is (1 − σ)·x0 + σ·noise. A step goes from σ to σ'; x0 = x − σ·v. */
import { DMD_STEPS, type SamplerName } from "./names.ts";
import {
  fixedSchedule,
  type HistoryName,
  type Schedule,
  type ScheduleOptions,
  type StepCoefficients,
  type Term,
} from "./schedule.ts";
import { unipcSchedule } from "./unipc_steps.ts";
import type { SigmaShift } from "./shift.ts";

/** Timesteps and noise levels of a run: one level more than timesteps. */
export type Levels = Pick<Schedule, "timesteps" | "sigmas">;

export function samplerSchedule(sampler: SamplerName, levels: Levels): Schedule {
  if (sampler === "uni_pc") return unipcSchedule(levels);
  if (sampler === "heun") return heunSchedule(levels);
  if (sampler === "dpmpp_2m") return dpmSchedule(levels);
  const { sigmas } = levels;
  const step = { euler, euler_ancestral: eulerAncestral, lcm, dmd: lcm }[sampler];
  const steps = Array.from(levels.timesteps, (_, i) => step(sigmas[i]!, sigmas[i + 1]!));
  return fixedSchedule({ ...levels, history: 0, steps });
}

/** x ← x + (σ' − σ)·v. Source: diffusers' FlowMatchEulerDiscreteScheduler. */
function euler(sigma: number, next: number): StepCoefficients {
  const terms: Term[] = [
    { tensor: "sample", scale: 1 },
    { tensor: "output", scale: next - sigma },
  ];
  return [{ target: "sample", terms }];
}

/** x ← (1 − σ')·x0 + σ'·noise. Source: diffusers' FlowMatchLCMScheduler, and Euler's with `stochastic_sampling`. */
function lcm(sigma: number, next: number): StepCoefficients {
  return [{
    target: "sample",
    terms: [
      { tensor: "sample", scale: 1 - next },
      { tensor: "output", scale: -(1 - next) * sigma },
      { tensor: "noise", scale: next },
    ],
  }];
}

/** Down to σ↓ = σ'²/σ, up to σ' with fresh noise. Source: ComfyUI's `sample_euler_ancestral_RF` with η = 1. */
function eulerAncestral(sigma: number, next: number): StepCoefficients {
  const down = next ** 2 / sigma;
  const keep = (1 - next) / (1 - down);
  const noise = Math.sqrt(Math.max(0, next ** 2 - (down * keep) ** 2));
  const terms: Term[] = [
    { tensor: "sample", scale: keep },
    { tensor: "output", scale: keep * (down - sigma) },
  ];
  if (noise > 0) terms.push({ tensor: "noise", scale: noise });
  return [{ target: "sample", terms }];
}

/**
 * An Euler step, and again with the mean of both ends' velocities: two steps of the schedule, but for the last one.
 * Source: diffusers' FlowMatchHeunDiscreteScheduler.
 */
function heunSchedule({ timesteps, sigmas }: Levels): Schedule {
  const count = timesteps.length;
  const steps = Array.from(timesteps, (_, i): StepCoefficients[] => {
    const change = sigmas[i + 1]! - sigmas[i]!;
    if (i === count - 1) return [euler(sigmas[i]!, sigmas[i + 1]!)];
    const half: Term = { tensor: "output", scale: change / 2 };
    const predict: StepCoefficients = [
      { target: "history0", terms: [{ tensor: "sample", scale: 1 }, half] },
      ...euler(sigmas[i]!, sigmas[i + 1]!),
    ];
    return [predict, [
      { target: "sample", terms: [{ tensor: "history0", scale: 1 }, half] },
    ]];
  });
  const twice = (values: Float64Array) =>
    [...values].flatMap((value, i) => i ? [value, value] : [value]);
  return fixedSchedule({
    timesteps: Float64Array.from(twice(timesteps)),
    sigmas: Float64Array.from([...twice(sigmas.slice(0, -1)), sigmas[count]!]),
    history: 1,
    steps: steps.flat(),
  });
}

/**
 * DPM-Solver++ (2M): x ← (σ'/σ)·x − α'·(e^{−h} − 1)·(x0 + ½·(h/h_before)·(x0 − x0_before)), where α = 1 − σ,
 * λ = ln(α/σ) and h = λ' − λ. The first step, and one that ends at 0, go without `x0_before`.
 * Source: Lu et al. 2022, "DPM-Solver++"; diffusers' DPMSolverMultistepScheduler with `use_flow_sigmas`.
 */
function dpmSchedule({ timesteps, sigmas }: Levels): Schedule {
  const lambda = (i: number): number => Math.log((1 - sigmas[i]!) / sigmas[i]!);
  const slot = (i: number): HistoryName => `history${i % 2}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const h = lambda(i + 1) - lambda(i);
    const weight = -(1 - next) * Math.expm1(-h);
    const ratio = i === 0 || next === 0 ? 0 : h / (lambda(i) - lambda(i - 1)) / 2;
    const terms: Term[] = [
      { tensor: "sample", scale: next / sigma },
      { tensor: slot(i), scale: weight * (1 + ratio) },
    ];
    if (i > 0 && next > 0) terms.push({ tensor: slot(i - 1), scale: -weight * ratio });
    if (!terms.every(({ scale }) => Number.isFinite(scale))) {
      throw new RangeError(
        `Cannot make a dpmpp_2m schedule: a step from sigma ${sigma} to ${next} divides by zero; take fewer steps`,
      );
    }
    return [
      {
        target: slot(i),
        terms: [{ tensor: "sample", scale: 1 }, { tensor: "output", scale: -sigma }],
      },
      { target: "sample", terms },
    ];
  });
  return fixedSchedule({ timesteps, sigmas, history: 2, steps });
}

/** Shares of the training's timesteps, after the shift. */
const LEVELS = [1, 0.757, 0.522];

/**
 * The steps of LCM at three timesteps of DMD's own; the sigmas are those of the training, shifted, nearest to them.
 * Source: Yin et al. 2024, "Improved Distribution Matching Distillation for Fast Image Synthesis"; FastVideo's
 * `DmdDenoisingStage` with the timesteps of the FastWan models.
 */
export function dmdSchedule(
  shift: SigmaShift,
  trainTimesteps: number,
  { scheduler, start = 0, ...options }: ScheduleOptions,
  count: number,
): Schedule {
  if (count !== DMD_STEPS || scheduler !== undefined) {
    throw new RangeError(
      `Cannot sample with dmd ${scheduler ? `and scheduler ${scheduler}` : `in ${count} steps`}: ` +
        `it has ${DMD_STEPS} noise levels of its own; use lcm for others`,
    );
  }
  const timesteps = LEVELS.map((level) => level * trainTimesteps);
  const trained = Array.from(
    { length: trainTimesteps },
    (_, i) => Math.fround(shift.shiftOne((trainTimesteps - i) / trainTimesteps, options)),
  );
  const sigmas = LEVELS.map((level) =>
    trained.reduce((best, sigma) => Math.abs(sigma - level) < Math.abs(best - level) ? sigma : best)
  );
  return samplerSchedule("dmd", {
    timesteps: Float64Array.from(timesteps.slice(start)),
    sigmas: Float64Array.from([...sigmas, 0].slice(start)),
  });
}
