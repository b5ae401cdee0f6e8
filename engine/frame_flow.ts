/** Keeps the worker from making frames faster than they are taken: those on their way would fill the memory. */

/** Most bytes of frames on their way; a single frame may be larger. */
const MAX_BYTES = 64e6;

/** How long one wait lasts before the worker looks whether it is cancelled, in milliseconds. */
const LOOK_MS = 50;

/** The frames of one generation between the worker and whoever takes them. */
export class FrameFlow {
  readonly #bytes: Int32Array<SharedArrayBuffer>;

  /** @param shared what both threads have: one i32, the bytes on their way */
  constructor(readonly shared: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.#bytes = new Int32Array(shared);
  }

  /** Waits in the worker until a frame may be sent, and counts it. */
  send(bytes: number, isCancelled: () => boolean): void {
    for (;;) {
      const sent = Atomics.load(this.#bytes, 0);
      if (sent === 0 || sent + bytes <= MAX_BYTES || isCancelled()) break;
      Atomics.wait(this.#bytes, 0, sent, LOOK_MS);
    }
    Atomics.add(this.#bytes, 0, bytes);
  }

  /** Lets the worker go on: a frame was taken, or nobody wants it. */
  take(bytes: number): void {
    Atomics.sub(this.#bytes, 0, bytes);
    Atomics.notify(this.#bytes, 0);
  }
}
