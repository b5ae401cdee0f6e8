/** Schedulers of diffusion models, by the classes of diffusers: all have one table of noise levels, and each a sampler. */
import { choiceField, refuseFields, type SchedulerConfig } from "./config.ts";
import { DIFFUSION_CLASSES } from "./diffusion_classes.ts";
import type { DiffusionModel, StartedLevels } from "./diffusion_levels.ts";
import { begun, DIFFUSION_STEPS } from "./diffusion_samplers.ts";
import { NOISE_SCHEDULES, OWN_SIGMAS, type SamplerName, SAMPLERS } from "./names.ts";
import { namedLevels } from "./named_levels.ts";
import { NoiseTable } from "./noise_table.ts";
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

/** Samplers for which ComfyUI takes one level more and drops the one before 0. */
const SKIPS_LAST_LEVEL: readonly SamplerName[] = ["dpm_2", "dpm_2_ancestral", "uni_pc"];

export class DiffusionScheduler implements Scheduler {
  readonly own: { readonly sampler: SamplerName };
  readonly choices: SamplingChoices;
  readonly usesDynamicShifting = false;
  readonly #model: DiffusionModel;

  constructor(config: SchedulerConfig) {
    const { sampler: samplerOf, betas, check } = DIFFUSION_CLASSES[String(config["_class_name"])]!;
    refuseFields(config, ["thresholding"]);
    check?.(config);
    const sampler = typeof samplerOf === "string" ? samplerOf : samplerOf(config);
    const table = new NoiseTable(config, betas);
    const prediction = choiceField(config, "prediction_type", PREDICTION_TYPES, "epsilon");
    const process = diffusionProcess(prediction, (sigma) => Math.fround(table.timestep(sigma)));
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
    const { sampler = this.#usualSampler(options) } = options;
    const { own, given, brownian } = choose("sampler", DIFFUSION_STEPS, sampler);
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
    const chosen = this.#chosen(numInferenceSteps, sampler, options);
    if (!chosen) {
      const run = own(this.#model, numInferenceSteps, start);
      return fixedSchedule(process, { ...run, isBrownian: brownian === "always" });
    }
    if (given) {
      const run = begun(chosen, start, given, process);
      return fixedSchedule(process, { ...run, isBrownian: brownian !== undefined });
    }
    throw new RangeError(
      `Cannot sample with ${sampler} and ${options.scheduler ? "a scheduler" : "sigmas"}: ` +
        `it has timesteps of its own; omit one of them, or use ${OWN_SIGMAS.get(sampler)}`,
    );
  }

  #usualSampler({ scheduler, sigmas }: ScheduleOptions): SamplerName {
    const { sampler } = this.own;
    const nearest = scheduler === undefined && sigmas === undefined
      ? undefined
      : OWN_SIGMAS.get(sampler);
    return nearest ?? sampler;
  }

  /** The levels that a request chooses. */
  #chosen(
    count: number,
    sampler: SamplerName,
    { scheduler, sigmas, aligned }: ScheduleOptions,
  ): StartedLevels | undefined {
    const { table, process } = this.#model;
    if (scheduler === undefined && sigmas === undefined) return undefined;
    const skips = SKIPS_LAST_LEVEL.includes(sampler);
    const levels = scheduler === undefined
      ? [...sigmas!, 0]
      : namedLevels(scheduler, { table, aligned }, skips ? count + 1 : count)
        .filter((_, i, { length }) => !skips || i !== length - 2);
    const [first] = levels as [number];
    // As ComfyUI does: a run from the highest level of the training begins with noise alone, of unit variance once scaled.
    const isWhole = first >= table.sigmas.at(-1)! * (1 - 1e-5);
    return {
      timesteps: Float64Array.from(levels.slice(0, -1), process.timestep),
      sigmas: Float64Array.from(levels),
      noiseScale: isWhole ? spread(first) : first,
    };
  }
}
