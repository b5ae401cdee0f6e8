/**
 * Schedulers: which noise levels a run visits, and how a step combines the tensors.
 *
 * @module
 */

import { excerpt } from "../../hub/json_file.ts";
import type { SchedulerConfig } from "./config.ts";
import { FlowMatchEulerScheduler } from "./flow_match_euler.ts";
import type { Scheduler } from "./schedule.ts";
import { UniPcScheduler } from "./unipc.ts";

export { FlowMatchEulerScheduler } from "./flow_match_euler.ts";
export {
  addNoise,
  applyStep,
  type Assignment,
  type HistoryName,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
  type StateName,
  type StepCoefficients,
  strengthStart,
  type Term,
} from "./schedule.ts";
export { UniPcScheduler } from "./unipc.ts";
export type { SchedulerConfig } from "./config.ts";

const schedulers: Readonly<Record<string, new (config: SchedulerConfig) => Scheduler>> = {
  FlowMatchEulerDiscreteScheduler: FlowMatchEulerScheduler,
  UniPCMultistepScheduler: UniPcScheduler,
};

/**
 * Makes the scheduler that a model's `scheduler_config.json` names.
 *
 * @param config the parsed file
 * @throws {TypeError} if it is no object, names a class that is not supported, or sets an option that
 *   is not
 */
export function createScheduler(config: unknown): Scheduler {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new TypeError("Cannot make a scheduler: the configuration is not a JSON object");
  }
  const fields = config as SchedulerConfig;
  const name = fields["_class_name"];
  const Class = typeof name === "string" && Object.hasOwn(schedulers, name)
    ? schedulers[name]
    : undefined;
  if (Class === undefined) {
    throw new TypeError(
      `Cannot make a scheduler: _class_name ${excerpt(name)} is not supported; ` +
        `supported are ${Object.keys(schedulers).join(", ")}`,
    );
  }
  return new Class(fields);
}
