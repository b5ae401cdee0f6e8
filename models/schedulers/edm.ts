/**
 * Schedulers of models in EDM's form, such as Playground v2.5 and CosXL: levels between two ends, without a table of betas.
 * Sources: Karras et al. 2022; diffusers' EDMEulerScheduler and EDMDPMSolverMultistepScheduler.
 */
import { chosenLevels, samplerOf } from "./chosen_levels.ts";
import { boundedField, choiceField, refuseFields, type SchedulerConfig } from "./config.ts";
import { DiffusionScheduler } from "./diffusion.ts";
import { requireOrder } from "./diffusion_classes.ts";
import type { DiffusionModel, StartedLevels } from "./diffusion_levels.ts";
import { begun, DIFFUSION_STEPS, dpmOptions } from "./diffusion_samplers.ts";
import { dpmpp } from "./dpm_steps.ts";
import { NOISE_SCHEDULES, type SamplerName, SAMPLERS } from "./names.ts";
import { NoiseTable } from "./noise_table.ts";
import { edmProcess, spread } from "./process.ts";
import { redistributed } from "./redistribution.ts";
import {
  checkedRange,
  choose,
  fixedSchedule,
  type SamplingChoices,
  type Schedule,
  type ScheduleOptions,
} from "./schedule.ts";
import type { Sampler } from "./steps.ts";

/** Levels of ComfyUI's table for such models, by which it spaces those with a name. */
const TABLE_LENGTH = 1000;

const HIGHEST = 1e6;

export class EdmScheduler extends DiffusionScheduler {
  readonly own: { readonly sampler: SamplerName };
  readonly choices: SamplingChoices;
  readonly #model: DiffusionModel;
  readonly #ends: readonly [highest: number, lowest: number];

  constructor(config: SchedulerConfig) {
    super();
    refuseFields(config, ["thresholding", "rescale_betas_zero_snr"]);
    const prediction = choiceField(
      config,
      "prediction_type",
      ["epsilon", "v_prediction"],
      "epsilon",
    );
    const lowest = boundedField(config, "sigma_min", 0.002, 1e-6, HIGHEST);
    const highest = boundedField(config, "sigma_max", 80, lowest, HIGHEST);
    const data = boundedField(config, "sigma_data", 0.5, 1e-6, HIGHEST);
    boundedField(config, "rho", 7, 7, 7);
    const levels = redistributed("exponential", highest, lowest, TABLE_LENGTH).reverse();
    this.#model = {
      config,
      table: new NoiseTable(Float64Array.from(levels)),
      process: edmProcess(prediction, data),
    };
    this.#ends = [highest, lowest];
    this.own = { sampler: ownSampler(config) };
    this.choices = {
      samplers: SAMPLERS.filter((name) => DIFFUSION_STEPS[name]?.given),
      schedulers: NOISE_SCHEDULES.filter((name) => name !== "align_your_steps"),
      maxSigma: highest,
    };
    // Reads the rest of the configuration.
    this.setTimesteps(2);
  }

  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const { process } = this.#model;
    const sampler = samplerOf(this.own.sampler, options);
    const steps: Readonly<Partial<Record<SamplerName, Sampler>>> = Object.fromEntries(
      this.choices.samplers.map((name) => [name, DIFFUSION_STEPS[name]!.given]),
    );
    const given = choose("sampler", steps, sampler);
    const chosen = chosenLevels(this.#model, numInferenceSteps, sampler, options);
    const levels = chosen ?? this.#levels(numInferenceSteps);
    const run = begun(
      levels,
      start,
      chosen ? given : this.#ownSteps(sampler, numInferenceSteps) ?? given,
      process,
    );
    const { brownian } = DIFFUSION_STEPS[sampler]!;
    const isBrownian = brownian === "always" || Boolean(chosen && brownian);
    return fixedSchedule(process, { ...run, isBrownian });
  }

  #levels(count: number): StartedLevels {
    const { config, process } = this.#model;
    const name = choiceField(config, "sigma_schedule", ["karras", "exponential"], "karras");
    const ends = choiceField(config, "final_sigmas_type", ["zero", "sigma_min"], "zero");
    const [highest, lowest] = this.#ends;
    const sigmas = redistributed(name, highest, lowest, count);
    return {
      timesteps: Float64Array.from(sigmas, process.timestep),
      sigmas: Float64Array.from([...sigmas, ends === "zero" ? 0 : lowest]),
      noiseScale: spread(highest),
    };
  }

  /** Multistep DPM-Solver++ as the configuration has it. */
  #ownSteps(sampler: SamplerName, count: number): Sampler | undefined {
    if (sampler !== "dpmpp_2m" && sampler !== "dpmpp_2m_sde") return undefined;
    const eta = sampler === "dpmpp_2m" ? 0 : 1;
    const options = { ...dpmOptions(this.#model.config, count, eta), eta } as const;
    return (levels, process) => dpmpp(levels, process, options);
  }
}

function ownSampler(config: SchedulerConfig): SamplerName {
  if (config["_class_name"] === "EDMEulerScheduler") return "euler";
  const types = ["dpmsolver++", "sde-dpmsolver++", "deis"] as const;
  const isSde = choiceField(config, "algorithm_type", types, "dpmsolver++") === "sde-dpmsolver++";
  requireOrder(config, isSde ? 2 : 3);
  return isSde ? "dpmpp_2m_sde" : "dpmpp_2m";
}
