/** The steps of Distribution Matching Distillation, whose models know three timesteps. */
import { DMD_STEPS } from "./names.ts";
import { flowProcess } from "./process.ts";
import { samplerSchedule } from "./samplers.ts";
import type { Schedule, ScheduleOptions } from "./schedule.ts";
import type { SigmaShift } from "./shift.ts";
import { SettingError } from "../setting_error.ts";

/** Shares of the training's timesteps, after the shift. */
const LEVELS = [1, 0.757, 0.522];

/**
 * The steps of LCM at three timesteps of DMD's own; the sigmas are those of the training, shifted, nearest to them.
 * Source: Yin et al. 2024, "Improved Distribution Matching Distillation for Fast Image Synthesis"; FastVideo's
 * `DmdDenoisingStage` with the timesteps of the FastWan models.
 */
export function dmdSchedule(
  shift: SigmaShift,
  trainTimesteps: number,
  { scheduler, start = 0, ...options }: ScheduleOptions,
  count: number,
): Schedule {
  if (count !== DMD_STEPS || scheduler !== undefined) {
    throw new SettingError(
      scheduler ? "scheduler" : "numInferenceSteps",
      `Cannot sample with dmd ${scheduler ? `and scheduler ${scheduler}` : `in ${count} steps`}: ` +
        `it has ${DMD_STEPS} noise levels of its own; use lcm for others`,
    );
  }
  const timesteps = LEVELS.map((level) => level * trainTimesteps);
  const trained = Array.from(
    { length: trainTimesteps },
    (_, i) => Math.fround(shift.shiftOne((trainTimesteps - i) / trainTimesteps, options)),
  );
  const sigmas = LEVELS.map((level) =>
    trained.reduce((best, sigma) => Math.abs(sigma - level) < Math.abs(best - level) ? sigma : best)
  );
  return samplerSchedule("dmd", {
    timesteps: Float64Array.from(timesteps.slice(start)),
    sigmas: Float64Array.from([...sigmas, 0].slice(start)),
  }, flowProcess(trainTimesteps));
}
