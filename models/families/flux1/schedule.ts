/** The noise levels of a request. */
import {
  type FlowMatchEulerScheduler,
  linspace,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";

export { modelTimestep } from "../flux2/schedule.ts";

/** Evenly spaced levels from 1 to 1 / steps, shifted; a dynamic shift goes by the tokens of the result. */
export function flux1Schedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  options: Omit<ScheduleOptions, "mu"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspace(1, 1 / steps, steps);
  return scheduler.setTimesteps(steps, { ...options, sigmas, mu: scheduler.mu(tokens) });
}
