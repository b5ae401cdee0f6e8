/** What a job spends its time on, stage by stage. */

import type { Progress } from "../../engine/types.ts";

/**
 * What a job is at: `prepare`, in which kernels are chosen and compiled, what the engine says, and `store`,
 * in which the file is made and kept.
 */
export type JobStage = "prepare" | Progress["stage"] | "store";

/** Seconds by stage; those that a job did not have are left out. */
export type StageSeconds = Partial<Record<JobStage, number>>;

/** The time that a job spends in each stage. */
export class StageClock {
  /** Seconds by stage, of those that have ended. */
  readonly seconds: StageSeconds = {};
  readonly #onEnd: (stage: JobStage, from: number, to: number) => void;
  #stage: JobStage | undefined;
  #from = 0;

  /** @param onEnd told of each stage that has ended, with its times in Unix milliseconds */
  constructor(onEnd: (stage: JobStage, from: number, to: number) => void = () => {}) {
    this.#onEnd = onEnd;
  }

  /**
   * Ends the stage under way and begins another; nothing happens when it is the same.
   *
   * @param stage that begins; nothing where the work has ended
   */
  enter(stage?: JobStage): void {
    if (stage === this.#stage) return;
    const now = performance.timeOrigin + performance.now();
    if (this.#stage !== undefined) {
      const before = this.seconds[this.#stage] ?? 0;
      this.seconds[this.#stage] = before + (now - this.#from) / 1000;
      this.#onEnd(this.#stage, this.#from, now);
    }
    this.#stage = stage;
    this.#from = now;
  }
}
