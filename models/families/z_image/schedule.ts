/** The noise levels of a request, and the timesteps that the transformer takes. */
import type { FlowMatchEulerScheduler, Schedule, ScheduleOptions } from "../../schedulers/mod.ts";

const fround = Math.fround;

/** What the pipeline counts timesteps down from, whatever the scheduler was trained with. */
const TRAIN_TIMESTEPS = 1000;

/**
 * The schedule of a request: evenly spaced levels from 1 to 1 / steps, shifted.
 *
 * Source: diffusers `ZImagePipeline`, `get_default_z_image_sigmas`.
 *
 * @param tokens of the image, by which a dynamic shift goes
 * @param options first step to take, and what the request says of the schedule
 */
export function zImageSchedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  options: Omit<ScheduleOptions, "mu"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspaceF32(1, 1 / steps, steps);
  return scheduler.setTimesteps(steps, { ...options, sigmas, mu: scheduler.mu(tokens) });
}

/** Evenly spaced numbers as torch computes them in float32: from the nearer end. */
function linspaceF32(first: number, last: number, count: number): number[] {
  if (count === 1) return [first];
  const step = fround(fround(fround(last) - first) / (count - 1));
  return Array.from(
    { length: count },
    (_, i) =>
      i < count / 2
        ? fround(first + fround(step * i))
        : fround(fround(last) - fround(step * (count - 1 - i))),
  );
}

/** How much of the noise is gone, 0 to 1: the time that the transformer takes, which runs against the scheduler's. */
export function elapsedTime(timestep: number): number {
  return fround(fround(TRAIN_TIMESTEPS - timestep) / TRAIN_TIMESTEPS);
}
