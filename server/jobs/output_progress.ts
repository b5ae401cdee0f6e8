/** The progress of a request that makes several outputs, one after the other or some at once. */

import type { Progress } from "../../engine/types.ts";
import type { JobProgress } from "./job.ts";

/** How far each output is. */
export class OutputProgress {
  readonly #count: number;
  readonly #outputs: (Pick<Progress, "fraction" | "step" | "totalSteps"> | undefined)[] = [];

  constructor(count: number) {
    this.#count = count;
  }

  /** How far the request is. */
  update({ stage, fraction, step, totalSteps, etaSeconds }: Progress, index: number): JobProgress {
    const count = this.#count;
    const outputs = this.#outputs;
    outputs[index] = { fraction, step, totalSteps };
    let [done, steps, begun] = [0, 0, 0];
    for (const output of outputs) {
      if (output) [done, steps, begun] = [done + output.fraction, steps + output.step, begun + 1];
    }
    const atWork = outputs.filter((output) => output && output.fraction < 1).length;
    const left = 1 - fraction;
    return {
      stage,
      fraction: done / count,
      step: steps,
      totalSteps: count * totalSteps,
      // The outputs to come take as long as this one, as far as is known.
      ...(etaSeconds === undefined || left <= 0 ? {} : {
        etaSeconds: etaSeconds * (left + (count - begun) / Math.max(1, atWork)) / left,
      }),
    };
  }

  /** Notes that an output is finished. */
  end(index: number): void {
    const { totalSteps = 0 } = this.#outputs[index] ?? {};
    this.#outputs[index] = { fraction: 1, step: totalSteps, totalSteps };
  }
}
