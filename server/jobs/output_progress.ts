/**
 * The progress of a request that makes several outputs one after the other.
 *
 * @module
 */

import type { Progress } from "../../engine/types.ts";
import type { JobProgress } from "./job.ts";

/**
 * How far a request is.
 *
 * @param progress of the output under way
 * @param index of that output
 * @param count number of outputs
 * @returns the progress of all of them
 */
export function progressOfAll(progress: Progress, index: number, count: number): JobProgress {
  const { stage, fraction, step, totalSteps, etaSeconds } = progress;
  const left = 1 - fraction;
  return {
    stage,
    fraction: (index + fraction) / count,
    step: index * totalSteps + step,
    totalSteps: count * totalSteps,
    // The outputs to come take as long as this one, as far as is known.
    ...(etaSeconds === undefined || left <= 0
      ? {}
      : { etaSeconds: etaSeconds * (left + count - index - 1) / left }),
  };
}
