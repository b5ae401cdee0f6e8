/** Where jobs run: what says whether one more can begin. */

import type { Turn } from "./turns.ts";

/** Places for jobs. */
export interface Places {
  /** How many jobs can run at once, of whatever kind; may change. */
  readonly count: number;
  /**
   * Whether a job can begin now.
   *
   * @param ahead how many others were told so far that they better wait; none when left out
   */
  hasRoomFor(job: Turn, ahead?: number): boolean;
  /** Takes a place. */
  take(job: Turn): () => void;
  /**
   * Listens to what makes room besides a place that is given back.
   *
   * @param listener called when there may be room for a job that there was none for
   */
  onChange(listener: () => void): void;
}

/** A number of places that are all alike. */
export class EqualPlaces implements Places {
  /** @inheritdoc */
  readonly count: number;
  #taken = 0;

  constructor(count: number) {
    this.count = count;
  }

  /** @inheritdoc */
  hasRoomFor(): boolean {
    return this.#taken < this.count;
  }

  /** @inheritdoc */
  take(): () => void {
    this.#taken++;
    return () => void this.#taken--;
  }

  /** @inheritdoc */
  onChange(): void {}
}
