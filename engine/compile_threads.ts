/**
 * Threads that compile kernels beside the one that owns the GPU, each on a device of its own. The main thread starts
 * them: Deno starts a thread late, and hands it its messages late, while the thread that asked for it is at work.
 */
import { Lifeline } from "./lifeline.ts";
import type { CompileTask } from "./protocol.ts";

/** Drivers compile on one core each; more threads than these wait for memory. */
const MOST_THREADS = 4;

/** The threads that help one worker. */
export class CompileThreads {
  /** What ends them. */
  readonly #running = new Map<Lifeline, () => void>();

  /**
   * Compiles kernels of a list until none is left.
   *
   * @returns when all threads are done, whatever became of them: they cost time only
   */
  async compile(task: CompileTask): Promise<void> {
    const threads = Math.min(MOST_THREADS, Math.floor(navigator.hardwareConcurrency / 2));
    await Promise.all(Array.from({ length: threads }, () => this.#run(task)));
  }

  /** Ends all threads after the kernels that they are at. */
  terminate(): void {
    for (const end of this.#running.values()) end();
  }

  /**
   * Waits until all threads are gone, with all that they had loaded.
   *
   * @param limitMs how long to wait, in milliseconds
   */
  async ended(limitMs: number): Promise<boolean> {
    const ends = [...this.#running.keys()].map((lifeline) => lifeline.ended(limitMs));
    return (await Promise.all(ends)).every(Boolean);
  }

  #run(task: CompileTask): Promise<void> {
    return new Promise((resolve) => {
      const worker = new Worker(new URL("./compile_worker.ts", import.meta.url), {
        type: "module",
        name: "denoise-compile",
      });
      worker.onerror = (event) => {
        event.preventDefault();
        resolve();
      };
      worker.onmessage = () => resolve();
      const lifeline: Lifeline = new Lifeline(worker, () => {
        resolve();
        lifeline.ended(Infinity).then(() => this.#running.delete(lifeline));
      });
      this.#running.set(lifeline, () => {
        worker.terminate();
        resolve();
      });
      worker.postMessage(task);
    });
  }
}
