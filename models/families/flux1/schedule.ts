/** The noise levels of a request. */
import {
  type FlowMatchEulerScheduler,
  linspace,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";

export { modelTimestep } from "../flux2/schedule.ts";

/**
 * The schedule of a request: evenly spaced levels from 1 to 1 / steps, shifted.
 *
 * @param tokens of the result, by which a dynamic shift goes
 * @param options first step to take, and what the request says of the schedule
 */
export function flux1Schedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  options: Omit<ScheduleOptions, "mu"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspace(1, 1 / steps, steps);
  return scheduler.setTimesteps(steps, { ...options, sigmas, mu: scheduler.mu(tokens) });
}
