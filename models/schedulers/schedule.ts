/**
 * A schedule: timesteps and, for each, a linear combination of tensors. Once the sigmas are known every solver is linear, so
 * schedulers give scalar coefficients in float64, and one kernel carries them out for any solver.
 */

import type { NoiseScheduleName, SamplerName } from "./names.ts";
import type { AlignedModel } from "./aligned_steps.ts";
import type { Process, Weights } from "./process.ts";
import { SettingError } from "../setting_error.ts";

/** A slot for state that the solver keeps from one step to the next: "history0", "history1", … */
export type HistoryName = `history${number}`;

/** What a step reads: the noisy latents, the network's output, a history slot, or fresh noise; all of one shape. */
export type StateName = "sample" | "output" | "noise" | HistoryName;

export interface Term {
  readonly tensor: StateName;
  readonly scale: number;
}

/** `target` ← Σ scale · tensor; every term is read before the target is written. */
export interface Assignment {
  readonly target: "sample" | HistoryName;
  readonly terms: readonly Term[];
}

export type StepCoefficients = readonly Assignment[];

export interface Schedule {
  /** What the reference passes to the network, one per step, descending. */
  readonly timesteps: Float64Array;
  /**
   * Noise levels, one more than steps: step i goes from `sigmas[i]` to `sigmas[i + 1]`. Those of a flow are in [0, 1]; those of a
   * diffusion model, whose samples are x0 + σ · noise, reach 14.6 and more.
   */
  readonly sigmas: Float64Array;
  /** What pure noise is multiplied by where a run begins with it. */
  readonly noiseScale: number;
  /** Number of history slots. No step reads a slot that an earlier one has not written. */
  readonly history: number;
  /** Whether a step reads "noise"; the caller then fills it again before every step that does. */
  readonly needsNoise: boolean;
  /** Whether this noise is that of one Brownian path, from `sigmas[i]` down to `sigmas[i + 1]`; drawn afresh otherwise. */
  readonly isBrownian: boolean;
  /** What the sample of step i is multiplied by before the network; 1 for flows. */
  inputScale(i: number): number;
  /** The share of x0 in a sample at a noise level: signal · x0 + σ · noise. */
  signal(sigma: number): number;
  /** Weights of the sample and the network's output in its estimate of x0. */
  denoised(sigma: number): Weights;
  step(i: number): StepCoefficients;
}

export interface ScheduleOptions {
  readonly sampler?: SamplerName | undefined;
  /** Spacing of the noise levels in place of `sigmas` or the scheduler's own. */
  readonly scheduler?: NoiseScheduleName | undefined;
  /** Sigmas before shifting, one per step, descending; the scheduler's own where absent. */
  readonly sigmas?: readonly number[] | undefined;
  /** Shift for schedulers with `use_dynamic_shifting`, which need it; others ignore it. */
  readonly mu?: number;
  /** Static shift in place of the configured one, from 0.001 to 1000; not with dynamic shifting. */
  readonly shift?: number | undefined;
  /** Which model's table `align_your_steps` takes; others have none. */
  readonly aligned?: AlignedModel | undefined;
  /** First step to run, for image-to-image and video-to-video; see {@link strengthStart}. */
  readonly start?: number;
}

/** What a request may choose of the sampling. */
export interface SamplingChoices {
  /** Samplers for this kind of model. */
  readonly samplers: readonly SamplerName[];
  /** Schedules for this kind of model. */
  readonly schedulers: readonly NoiseScheduleName[];
  /** The highest of `sigmas`: 1 for flow models. */
  readonly maxSigma: number;
}

export interface Scheduler {
  readonly choices: SamplingChoices;
  /** What runs where a request chooses nothing; no spacing where it has no name. */
  readonly own: { readonly sampler: SamplerName; readonly scheduler?: NoiseScheduleName };
  /** Whether the shift follows from the size of the request, so that none can be chosen. */
  readonly usesDynamicShifting: boolean;
  /** Makes the schedule of one run; the number of steps is that of the whole schedule, those before `start` included. */
  setTimesteps(numInferenceSteps: number, options?: ScheduleOptions): Schedule;
}

export function readsNoise(step: StepCoefficients): boolean {
  return step.some(({ terms }) => terms.some(({ tensor }) => tensor === "noise"));
}

export function fixedSchedule(
  process: Process,
  parts: Pick<Schedule, "timesteps" | "sigmas" | "history"> & {
    readonly steps: readonly StepCoefficients[];
    readonly noiseScale?: number;
    readonly isBrownian?: boolean;
  },
): Schedule {
  const { timesteps, sigmas, history, steps, noiseScale = 1, isBrownian = false } = parts;
  const needsNoise = steps.some(readsNoise);
  // Sigmas that are none come of a size beyond all limits, which is refused elsewhere.
  const broken = steps.findIndex((step, i) =>
    Number.isFinite(sigmas[i]) &&
    step.some(({ terms }) => terms.some(({ scale }) => !Number.isFinite(scale)))
  );
  if (broken >= 0) {
    throw new SettingError(
      "numInferenceSteps",
      `Cannot make a schedule: the step from sigma ${sigmas[broken]} to ${sigmas[broken + 1]} ` +
        `divides by zero; take fewer steps`,
    );
  }
  return {
    timesteps,
    sigmas,
    noiseScale,
    history,
    needsNoise,
    isBrownian,
    inputScale: (i) => process.inputScale(sigmas[i]!),
    signal: process.signal,
    denoised: process.denoised,
    step(i: number): StepCoefficients {
      const step = steps[i];
      if (step === undefined) {
        throw new RangeError(`Cannot give step ${i}: the schedule has ${steps.length} steps`);
      }
      return step;
    },
  };
}

export function checkedRange(numInferenceSteps: number, options: ScheduleOptions): number {
  const { sigmas, start = 0 } = options;
  if (!Number.isSafeInteger(numInferenceSteps) || numInferenceSteps < 1) {
    throw new SettingError(
      "numInferenceSteps",
      `Cannot make a schedule: the number of steps is ${numInferenceSteps}, not an integer >= 1`,
    );
  }
  if (sigmas !== undefined && sigmas.length !== numInferenceSteps) {
    throw new SettingError(
      "sigmas",
      `Cannot make a schedule: ${sigmas.length} sigmas are given for ${numInferenceSteps} steps`,
    );
  }
  if (!Number.isSafeInteger(start) || start < 0 || start >= numInferenceSteps) {
    throw new RangeError(
      `Cannot start at step ${start}: the schedule has steps 0 to ${numInferenceSteps - 1}`,
    );
  }
  return start;
}

/**
 * The first step from an image or video: FLUX, Qwen-Image and Z-Image round it down (`"start"`), Wan rounds the number of
 * steps down (`"steps"`). Where the reference refuses to run no step, one is run here.
 */
export function strengthStart(
  numInferenceSteps: number,
  strength: number,
  rounding: "start" | "steps",
): number {
  if (!(strength >= 0 && strength <= 1)) {
    throw new SettingError(
      "strength",
      `Cannot use strength ${strength}: it must be between 0 and 1`,
    );
  }
  const steps = Math.min(numInferenceSteps * strength, numInferenceSteps);
  if (steps === 0) {
    throw new SettingError(
      "strength",
      `Cannot use strength ${strength} with ${numInferenceSteps} steps: no step is left to run; raise strength`,
    );
  }
  const start = rounding === "start"
    ? Math.trunc(numInferenceSteps - steps)
    : numInferenceSteps - Math.trunc(steps);
  return Math.min(start, numInferenceSteps - 1);
}

/** What a table has for a name of a request. */
export function choose<Name extends string, Value>(
  what: "sampler" | "scheduler",
  table: Readonly<Partial<Record<Name, Value>>>,
  name: Name,
): Value {
  const found = table[name];
  if (found !== undefined) return found;
  throw new SettingError(
    what,
    `Cannot use the ${what} ${name} with this model: it takes ${Object.keys(table).join(", ")}`,
  );
}

/** The names of a table, in the order of `all`. */
export function namesOf<Name extends string>(
  all: readonly Name[],
  table: Readonly<Partial<Record<Name, unknown>>>,
): Name[] {
  return all.filter((name) => name in table);
}
