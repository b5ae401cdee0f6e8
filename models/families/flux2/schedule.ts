/** The noise levels of a request. */
import {
  linspace,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
} from "../../schedulers/mod.ts";

const MANY_TOKENS = 4300;

/** The shift: lines fitted to 10 and to 200 steps, by tokens. Source: diffusers `compute_empirical_mu`. */
export function empiricalMu(tokens: number, steps: number): number {
  const at200 = 0.00016927 * tokens + 0.45666666;
  if (tokens > MANY_TOKENS) return at200;
  const at10 = 8.73809524e-05 * tokens + 1.89833333;
  const slope = (at200 - at10) / 190;
  return slope * steps + (at200 - 200 * slope);
}

export function flux2Schedule(
  scheduler: Scheduler,
  tokens: number,
  steps: number,
  options: Omit<ScheduleOptions, "mu" | "shift"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspace(1, 1 / steps, steps);
  return scheduler.setTimesteps(steps, { ...options, sigmas, mu: empiricalMu(tokens, steps) });
}
