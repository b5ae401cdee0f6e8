/** Threads that convert elements. */
import type { Conversion } from "./convert.ts";
import type { ConversionAnswer } from "./quantize_worker.ts";

/** More threads would wait for the disk. */
const MAX_THREADS = 16;

/** Threads that convert elements. */
export class ConvertPool implements Disposable {
  readonly #idle: Worker[];
  readonly #all: readonly Worker[];
  readonly #waiting: ((worker: Worker) => void)[] = [];

  /** @param threads as many as the machine has cores when left out */
  constructor(threads = Math.min(MAX_THREADS, navigator.hardwareConcurrency)) {
    this.#all = Array.from(
      { length: threads },
      () => new Worker(new URL("./quantize_worker.ts", import.meta.url), { type: "module" }),
    );
    this.#idle = [...this.#all];
  }

  /** Waits until a thread is idle, and has it convert; its bytes are gone from the caller. */
  async start(
    conversion: Conversion,
  ): Promise<{ readonly done: Promise<Uint8Array<ArrayBuffer>> }> {
    const worker = this.#idle.pop() ??
      await new Promise<Worker>((resolve) => this.#waiting.push(resolve));
    return { done: this.#run(worker, conversion) };
  }

  [Symbol.dispose](): void {
    for (const worker of this.#all) worker.terminate();
  }

  #run(worker: Worker, conversion: Conversion): Promise<Uint8Array<ArrayBuffer>> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    worker.onmessage = ({ data }: MessageEvent<ConversionAnswer>) => {
      const next = this.#waiting.shift();
      if (next) next(worker);
      else this.#idle.push(worker);
      if ("bytes" in data) resolve(data.bytes);
      else reject(new RangeError(data.problem));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(`Cannot convert tensor "${conversion.name}": ${event.message}`));
    };
    worker.postMessage(conversion, [conversion.bytes.buffer]);
    return promise;
  }
}
