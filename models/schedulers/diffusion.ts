/** Schedulers of diffusion models, by the classes of diffusers: all have one table of noise levels, and each a sampler. */
import { choiceField, refuseFields, requireField, type SchedulerConfig } from "./config.ts";
import type { DiffusionModel, StartedLevels } from "./diffusion_levels.ts";
import { begun, DIFFUSION_STEPS } from "./diffusion_samplers.ts";
import { NOISE_SCHEDULES, type SamplerName, SAMPLERS } from "./names.ts";
import { namedLevels } from "./named_levels.ts";
import { type BetaSchedule, NoiseTable } from "./noise_table.ts";
import { diffusionProcess, PREDICTION_TYPES, spread } from "./process.ts";
import {
  checkedRange,
  choose,
  fixedSchedule,
  namesOf,
  type SamplingChoices,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
} from "./schedule.ts";

interface DiffusionClass {
  readonly sampler: SamplerName;
  /** ᾱ of the last timestep under zero terminal SNR; 0 where absent. */
  readonly terminal?: number;
  readonly betas?: {
    readonly start: number;
    readonly end: number;
    readonly schedule: BetaSchedule;
  };
  readonly check?: (config: SchedulerConfig) => void;
}

const BETAS = { start: 0.0001, end: 0.02, schedule: "linear" } as const;

export const DIFFUSION_CLASSES: Readonly<Record<string, DiffusionClass>> = {
  DDIMScheduler: {
    sampler: "ddim",
    check: (config) => requireField(config, "clip_sample", false, true),
  },
  EulerDiscreteScheduler: {
    sampler: "euler",
    terminal: 2 ** -24,
    check: (config) => choiceField(config, "timestep_type", ["discrete"], "discrete"),
  },
  PNDMScheduler: {
    sampler: "pndm",
    check(config) {
      requireField(config, "skip_prk_steps", true, false);
      choiceField(config, "prediction_type", ["epsilon", "v_prediction"], "epsilon");
    },
  },
};

export class DiffusionScheduler implements Scheduler {
  readonly own: { readonly sampler: SamplerName };
  readonly choices: SamplingChoices;
  readonly usesDynamicShifting = false;
  readonly #model: DiffusionModel;

  constructor(config: SchedulerConfig) {
    const { sampler, terminal, betas = BETAS, check } =
      DIFFUSION_CLASSES[String(config["_class_name"])]!;
    refuseFields(config, ["thresholding"]);
    check?.(config);
    const table = new NoiseTable(config, betas, terminal);
    const prediction = choiceField(config, "prediction_type", PREDICTION_TYPES, "epsilon");
    const process = diffusionProcess(prediction, (sigma) => table.timestep(sigma));
    this.#model = { config, table, process };
    this.own = { sampler };
    this.choices = {
      samplers: namesOf(SAMPLERS, DIFFUSION_STEPS),
      schedulers: NOISE_SCHEDULES,
      maxSigma: table.sigmas.at(-1)!,
    };
    // Reads the rest of the configuration, so that what is wrong with it is said when the model is opened.
    this.setTimesteps(2);
  }

  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const { table, process } = this.#model;
    const { sampler = this.own.sampler } = options;
    const { own, given } = choose("sampler", DIFFUSION_STEPS, sampler);
    if (options.shift !== undefined) {
      throw new RangeError(
        `Cannot make a schedule with shift ${options.shift}: only rectified flows have a shift; omit it`,
      );
    }
    if (numInferenceSteps > table.length) {
      throw new RangeError(
        `Cannot make a schedule of ${numInferenceSteps} steps: the model has ${table.length} timesteps`,
      );
    }
    const chosen = this.#chosen(numInferenceSteps, options);
    if (!chosen) return fixedSchedule(process, own(this.#model, numInferenceSteps, start));
    if (given) return fixedSchedule(process, begun(chosen, start, given, process));
    throw new RangeError(
      `Cannot sample with ${sampler} and ${options.scheduler ? "a scheduler" : "sigmas"}: ` +
        `it has timesteps of its own; omit the one or the other`,
    );
  }

  /** The levels that a request chooses. */
  #chosen(count: number, { scheduler, sigmas }: ScheduleOptions): StartedLevels | undefined {
    const { table } = this.#model;
    if (scheduler === undefined && sigmas === undefined) return undefined;
    const levels = scheduler === undefined ? [...sigmas!, 0] : namedLevels(scheduler, table, count);
    const [first] = levels as [number];
    // As ComfyUI does: a run from the highest level of the training begins with noise alone, of unit variance once scaled.
    const isWhole = first >= table.sigmas.at(-1)! * (1 - 1e-5);
    return {
      timesteps: Float64Array.from(levels.slice(0, -1), (sigma) => table.timestep(sigma)),
      sigmas: Float64Array.from(levels),
      noiseScale: isWhole ? spread(first) : first,
    };
  }
}
