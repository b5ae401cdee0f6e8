/** The noise levels of a request, the timesteps that the transformer takes, and guidance. */
import {
  type FlowMatchEulerScheduler,
  imageSchedule,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";
import { elementwise, slice } from "../../../runtime/mod.ts";
import type { CombinedGuidance, Guidance } from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { squares, sumOfAll } from "../../blocks/sums.ts";
import { SettingError } from "../../setting_error.ts";

const fround = Math.fround;

/** What the pipeline counts timesteps down from, whatever the scheduler was trained with. */
const TRAIN_TIMESTEPS = 1000;

/** Evenly spaced levels, shifted: diffusers' `ZImagePipeline`, `get_default_z_image_sigmas`. */
export function zImageSchedule(
  scheduler: FlowMatchEulerScheduler,
  tokens: number,
  steps: number,
  options: Omit<ScheduleOptions, "mu"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspaceF32(1, 1 / steps, steps);
  return imageSchedule(scheduler, tokens, steps, { ...options, sigmas });
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

/** p + scale · (p − n), of negated velocities; nothing is guided after `cfg_truncation`. Source: diffusers `ZImagePipeline`. */
export function zImageGuidance(
  { guidanceScale: scale, guidanceEnd = 1, guidanceLimit }: PipelineRequest,
  timesteps: ArrayLike<number>,
  prompts: number,
): Guidance {
  if (prompts === 1) return { weights: () => [-1] };
  return {
    weights: (i) => (elapsedTime(timesteps[i]!) <= guidanceEnd ? [-1 - scale, scale] : [-1, 0]),
    ...(guidanceLimit !== undefined && {
      combined: { settings: () => [scale, guidanceLimit], weight: () => -1 },
    }),
  };
}

export function checkGuidance({ guidanceLimit = 1, guidanceEnd = 1 }: PipelineRequest): void {
  if (!(guidanceLimit > 0 && guidanceLimit < Infinity)) {
    throw new SettingError(
      "guidanceLimit",
      `Cannot guide with a guidanceLimit of ${guidanceLimit}: it must be above 0; omit it for no limit`,
    );
  }
  if (!(guidanceEnd >= 0 && guidanceEnd <= 1)) {
    throw new SettingError(
      "guidanceEnd",
      `Cannot guide with a guidanceEnd of ${guidanceEnd}: it must be a share of the way, from 0 to 1`,
    );
  }
}

/**
 * p + scale · (p − n), shortened to ratio · ‖p‖. The settings are scale and ratio.
 * Source: diffusers `ZImagePipeline`, `cfg_normalization`.
 */
export const LIMITED_GUIDANCE: CombinedGuidance = {
  settings: 2,
  trace([positive, negative], settings) {
    const scale = slice(settings, 2, 0, 1);
    const predicted = elementwise("p + g * (p - n)", { p: positive!, n: negative!, g: scale });
    const factor = elementwise("min(1.0, limit * sqrt(p / max(q, 1e-30)))", {
      limit: slice(settings, 2, 1, 2),
      p: sumOfAll(squares(positive!)),
      q: sumOfAll(squares(predicted)),
    });
    return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
  },
};
