/**
 * Long work in short stretches: what is at hand is worked on without a pause, and meanwhile nobody
 * else is answered.
 */

/** How long work may go on before others have their turn, in milliseconds. */
const STRETCH_MS = 8;

/** Turns of the event loop between two that work: a request takes some until it is answered. */
const FREE_TURNS = 4;

let last: Promise<void> = Promise.resolve();

/**
 * Waits until others were answered; of all who wait, one goes on at a time.
 *
 * @returns resolves in a turn of the event loop in which nobody else goes on
 */
export function nextTurn(): Promise<void> {
  return last = last.then(async () => {
    for (let turn = 0; turn < FREE_TURNS; turn++) {
      await new Promise((resolve) => setTimeout(resolve));
    }
  });
}

/** Tells work that comes in many pieces when it has gone on for long enough. */
export class Stretch {
  #since = performance.now();

  /** Goes on at once, or in the next turn when the stretch is over. */
  async pause(): Promise<void> {
    if (performance.now() - this.#since < STRETCH_MS) return;
    await nextTurn();
    this.#since = performance.now();
  }
}
