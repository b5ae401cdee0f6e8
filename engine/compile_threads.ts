/**
 * Threads that compile kernels beside the one that owns the GPU, each on a device of its own. The main thread starts
 * them: Deno starts a thread late, and hands it its messages late, while the thread that asked for it is at work.
 */
import { Lifeline } from "../platform/mod.ts";
import type { CompileHelpers, Device, KernelCode, Turns } from "../runtime/mod.ts";
import type { CompileTask, DeviceSettings, FromWorker } from "./protocol.ts";

/** Drivers compile on one core each; more threads than these wait for memory. */
const MOST_THREADS = 4;

export class CompileThreads {
  readonly #running = new Map<Lifeline, () => void>();

  /** Compiles kernels of a list until none is left; what becomes of the threads costs time only. */
  async compile(task: CompileTask): Promise<void> {
    const threads = Math.min(MOST_THREADS, Math.floor(navigator.hardwareConcurrency / 2));
    await Promise.all(Array.from({ length: threads }, () => this.#run(task)));
  }

  /** Ends all threads after the kernels that they are at. */
  terminate(): void {
    for (const end of this.#running.values()) end();
  }

  /** Waits until all threads are gone, with all that they had loaded. */
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

/** Has the main thread compile kernels on threads of its own; see `CompileThreads`. */
export class AskedHelpers implements CompileHelpers {
  readonly #device: DeviceSettings;
  readonly #post: (message: FromWorker) => void;
  /** What to tell when the main thread is done, the oldest first. */
  readonly #waiting: (() => void)[] = [];

  /** @param device how the thread that owns the GPU has opened it */
  constructor(device: DeviceSettings, post: (message: FromWorker) => void) {
    this.#device = device;
    this.#post = post;
  }

  compile(kernels: readonly KernelCode[], turns: Turns): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#post({ type: "compile", task: { device: this.#device, kernels, turns: turns.shared } });
    });
  }

  /** Ends the helpers, when the main thread says that its threads are done. */
  finish(): void {
    this.#waiting.shift()?.();
  }
}

/** Helpers for a device: none where WebGPU tells at once when a kernel is asked for, and compiles by itself. */
export function compileHelpers(
  { adapter }: Device,
  settings: DeviceSettings,
  post: (message: FromWorker) => void,
): AskedHelpers | undefined {
  return adapter.backend === "deno"
    ? new AskedHelpers({ ...settings, backend: "deno" }, post)
    : undefined;
}
