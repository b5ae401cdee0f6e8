/** Schedulers: which noise levels a run visits, and how a step combines the tensors. */

import { excerpt } from "../../hub/json_file.ts";
import type { SchedulerConfig } from "./config.ts";
import { BetaScheduler } from "./diffusion.ts";
import { DIFFUSION_CLASSES } from "./diffusion_classes.ts";
import { EdmScheduler } from "./edm.ts";
import { FlowMatchEulerScheduler } from "./flow_match_euler.ts";
import { type Schedule, type ScheduleOptions, type Scheduler, strengthStart } from "./schedule.ts";
import { linspace } from "./shift.ts";
import { DpmSolverScheduler, UniPcScheduler } from "./multistep.ts";

export { NOISE_SCHEDULES, type NoiseScheduleName, type SamplerName, SAMPLERS } from "./names.ts";
export { FLOW_CHOICES, FlowScheduler } from "./noise_levels.ts";
export { DiffusionScheduler } from "./diffusion.ts";
export { EdmScheduler } from "./edm.ts";
export { FlowMatchEulerScheduler } from "./flow_match_euler.ts";
export {
  type Assignment,
  type HistoryName,
  readsNoise,
  type SamplingChoices,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
  type StateName,
  type StepCoefficients,
  strengthStart,
  type Term,
} from "./schedule.ts";
export { linspace } from "./shift.ts";
export { UniPcScheduler } from "./multistep.ts";
export type { SchedulerConfig } from "./config.ts";

export const SAMPLING_CHOICES = ["sampler", "scheduler", "sigmas"] as const;

export function samplingOf(
  { flowShift, sampler, scheduler, sigmas }: {
    readonly flowShift?: number | undefined;
  } & Pick<ScheduleOptions, "sampler" | "scheduler" | "sigmas">,
): ScheduleOptions {
  return { shift: flowShift, sampler, scheduler, sigmas };
}

export function imageSteps(
  request: Parameters<typeof samplingOf>[0] & {
    readonly numInferenceSteps: number;
    readonly strength?: number;
  },
  startsFromImage: boolean,
): ScheduleOptions & { readonly steps: number } {
  const { numInferenceSteps: steps, strength = 1 } = request;
  const start = startsFromImage ? strengthStart(steps, strength, "start") : 0;
  return { steps, start, ...samplingOf(request) };
}

export function imageSchedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  options: ScheduleOptions = {},
): Schedule {
  const { sigmas = linspace(1, 1 / steps, steps), mu = scheduler.mu(tokens) } = options;
  return scheduler.setTimesteps(steps, { ...options, sigmas, mu });
}

type SchedulerClass = new (config: SchedulerConfig) => Scheduler;

/** Classes without a table of betas. */
const OTHER_CLASSES: Readonly<Record<string, SchedulerClass>> = {
  DPMSolverMultistepScheduler: DpmSolverScheduler,
  FlowMatchEulerDiscreteScheduler: FlowMatchEulerScheduler,
  UniPCMultistepScheduler: UniPcScheduler,
  EDMDPMSolverMultistepScheduler: EdmScheduler,
  EDMEulerScheduler: EdmScheduler,
};

/** Two classes of diffusers are for both kinds of models. */
function classOf(name: unknown, config: SchedulerConfig): SchedulerClass | undefined {
  if (typeof name !== "string") return undefined;
  const isFlow = config["use_flow_sigmas"] === true ||
    config["prediction_type"] === "flow_prediction";
  if (!isFlow && Object.hasOwn(DIFFUSION_CLASSES, name)) return BetaScheduler;
  return Object.hasOwn(OTHER_CLASSES, name) ? OTHER_CLASSES[name] : undefined;
}

export function createScheduler(config: unknown): Scheduler {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new TypeError("Cannot make a scheduler: the configuration is not a JSON object");
  }
  const fields = config as SchedulerConfig;
  const name = fields["_class_name"];
  const Class = classOf(name, fields);
  if (Class === undefined) {
    throw new TypeError(
      `Cannot make a scheduler: _class_name ${excerpt(name)} is not supported; ` +
        `supported are ${
          [...new Set([DIFFUSION_CLASSES, OTHER_CLASSES].flatMap(Object.keys))].join(", ")
        }`,
    );
  }
  return new Class(fields);
}
