/** The noise levels of LTX-2, and how long its sound is. Source: diffusers `LTX2Pipeline`. */
import {
  FlowMatchEulerScheduler,
  imageSchedule,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";

/** Levels that the distilled models were made for. Source: diffusers `DISTILLED_SIGMA_VALUES`. */
export const DISTILLED_SIGMAS: readonly number[] = [
  ...[1, 0.99375, 0.9875, 0.98125, 0.975],
  ...[0.909375, 0.725, 0.421875],
];

/** Levels of the second of two stages. Source: diffusers `STAGE_2_DISTILLED_SIGMA_VALUES`. */
export const SECOND_SIGMAS: readonly number[] = DISTILLED_SIGMAS.slice(-3);

/** Those levels as they are, whatever a file says of levels between which a model without them steps. */
const UNSHIFTED = new FlowMatchEulerScheduler({ shift: 1 });

export function ltx2Schedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  { isDistilled, ...options }: ScheduleOptions & { readonly isDistilled: boolean },
): Schedule {
  if (isDistilled && steps === DISTILLED_SIGMAS.length && !options.scheduler && !options.sigmas) {
    return imageSchedule(UNSHIFTED, tokens, steps, { ...options, sigmas: DISTILLED_SIGMAS });
  }
  return imageSchedule(scheduler, tokens, steps, options);
}

/** The last levels once more, of what was made smaller. */
export function secondSchedule(options: ScheduleOptions): Schedule {
  const { sampler } = options;
  const steps = SECOND_SIGMAS.length;
  return imageSchedule(UNSHIFTED, 0, steps, { sampler, sigmas: SECOND_SIGMAS });
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
