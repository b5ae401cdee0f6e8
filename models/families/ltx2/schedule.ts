/** The noise levels of LTX-2, and how long its sound is. Source: diffusers `LTX2Pipeline`. */
import {
  type FlowMatchEulerScheduler,
  imageSchedule,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";

/** Levels that the distilled models were made for. Source: diffusers `DISTILLED_SIGMA_VALUES`. */
export const DISTILLED_SIGMAS: readonly number[] = [
  ...[1, 0.99375, 0.9875, 0.98125, 0.975],
  ...[0.909375, 0.725, 0.421875],
];

export function ltx2Schedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  { isDistilled, ...options }: ScheduleOptions & { readonly isDistilled: boolean },
): Schedule {
  const own = isDistilled && steps === DISTILLED_SIGMAS.length && !options.scheduler
    ? { sigmas: DISTILLED_SIGMAS }
    : {};
  const { sigmas, ...others } = options;
  return imageSchedule(scheduler, tokens, steps, { ...others, ...own, ...(sigmas && { sigmas }) });
}

/** Latents of the sound that is as long as a video, `rate` of them a second, as Python rounds. */
export function soundLatents(
  frames: number,
  fps: number,
  rate: number,
): number {
  const exact = frames / fps * rate;
  const whole = Math.floor(exact);
  const isUp = exact - whole > 0.5 || (exact - whole === 0.5 && whole % 2 === 1);
  return Math.max(1, isUp ? whole + 1 : whole);
}
