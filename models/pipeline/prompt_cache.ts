/** What text encoders gave for prompts, kept in host memory: a prompt is often used again, and its encoder costly. */

/** Bytes that are kept: eight prompts of the longest kind, hundreds of usual ones. */
const MAX_BYTES = 64 * 1024 * 1024;

/** See the file comment. The prompts that were used last are kept. */
export class PromptCache {
  readonly #maxBytes: number;
  readonly #entries = new Map<string, Float32Array>();
  #bytes = 0;

  /** Empty at first. */
  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that are kept at present. */
  get byteLength(): number {
    return this.#bytes;
  }

  /**
   * The states of a prompt, if they are kept.
   *
   * @param key everything that decides them: tokens, the form of the program, LoRAs of the text encoder
   */
  get(key: string): Float32Array | undefined {
    const states = this.#entries.get(key);
    if (!states) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, states);
    return states;
  }

  /** Keeps states; those of prompts that were not used for the longest time make room for them. */
  set(key: string, states: Float32Array): void {
    this.#delete(key);
    if (states.byteLength > this.#maxBytes) return;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes + states.byteLength <= this.#maxBytes) break;
      this.#delete(oldest);
    }
    this.#entries.set(key, states);
    this.#bytes += states.byteLength;
  }

  #delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.byteLength ?? 0;
    this.#entries.delete(key);
  }
}
