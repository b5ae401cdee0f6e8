/** Schedulers of diffusion models, by the classes of diffusers: all have one table of noise levels, and each a sampler. */
import { choiceField, refuseFields, type SchedulerConfig } from "./config.ts";
import { DIFFUSION_CLASSES } from "./diffusion_classes.ts";
import { chosenLevels, samplerOf } from "./chosen_levels.ts";
import type { DiffusionModel } from "./diffusion_levels.ts";
import { begun, DIFFUSION_STEPS } from "./diffusion_samplers.ts";
import { NOISE_SCHEDULES, OWN_SIGMAS, type SamplerName, SAMPLERS } from "./names.ts";
import { NoiseTable } from "./noise_table.ts";
import { diffusionProcess, PREDICTION_TYPES } from "./process.ts";
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
import { SettingError } from "../setting_error.ts";

/** What a family of diffusion models takes. */
export abstract class DiffusionScheduler implements Scheduler {
  abstract readonly own: { readonly sampler: SamplerName };
  abstract readonly choices: SamplingChoices;
  readonly usesDynamicShifting = false;
  abstract setTimesteps(numInferenceSteps: number, options?: ScheduleOptions): Schedule;
}

export class BetaScheduler extends DiffusionScheduler {
  readonly own: { readonly sampler: SamplerName };
  readonly choices: SamplingChoices;
  readonly #model: DiffusionModel;

  constructor(config: SchedulerConfig) {
    super();
    const { sampler, betas, check } = DIFFUSION_CLASSES[String(config["_class_name"])]!;
    refuseFields(config, ["thresholding"]);
    check?.(config);
    const table = NoiseTable.fromBetas(config, betas);
    const prediction = choiceField(config, "prediction_type", PREDICTION_TYPES, "epsilon");
    const process = diffusionProcess(prediction, (sigma) => Math.fround(table.timestep(sigma)));
    this.#model = { config, table, process };
    this.own = { sampler: typeof sampler === "string" ? sampler : sampler(config) };
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
    const sampler = samplerOf(this.own.sampler, options);
    const { own, given, brownian } = choose("sampler", DIFFUSION_STEPS, sampler);
    if (numInferenceSteps > table.length) {
      throw new SettingError(
        "numInferenceSteps",
        `Cannot make a schedule of ${numInferenceSteps} steps: the model has ${table.length} timesteps`,
      );
    }
    const chosen = chosenLevels(this.#model, numInferenceSteps, sampler, options);
    if (!chosen) {
      const run = own(this.#model, numInferenceSteps, start);
      return fixedSchedule(process, { ...run, isBrownian: brownian === "always" });
    }
    if (given) {
      const run = begun(chosen, start, given, process);
      return fixedSchedule(process, { ...run, isBrownian: brownian !== undefined });
    }
    throw new SettingError(
      "sampler",
      `Cannot sample with ${sampler} and ${options.scheduler ? "a scheduler" : "sigmas"}: ` +
        `it has timesteps of its own; omit one of them, or use ${OWN_SIGMAS.get(sampler)}`,
    );
  }
}
