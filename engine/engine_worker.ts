import { DeviceLostError } from "../runtime/errors.ts";
import { CompileThreads } from "./compile_threads.ts";
import {
  type CompileTask,
  fromErrorRecord,
  type FromWorker,
  type Message,
  type ToWorker,
} from "./protocol.ts";
import { Lifeline } from "../platform/mod.ts";

/** A worker seen from the main thread: one question at a time, events until the answer. */
export class EngineWorker {
  readonly #worker: Worker;
  readonly #lifeline: Lifeline;
  readonly #compileThreads = new CompileThreads();
  #pending: {
    resolve(answer: FromWorker): void;
    reject(error: unknown): void;
    onEvent(event: FromWorker): void;
  } | undefined;
  #isBroken = false;

  /** @param worker a thread that speaks the protocol; by default a new one that owns the GPU */
  constructor(worker: Worker = startThread()) {
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(new DeviceLostError(`Cannot go on: the GPU worker ended (${event.message})`));
    };
    worker.onmessageerror = () => {
      this.#fail(new Error("Cannot go on: the GPU worker sent what cannot be read"));
    };
    this.#lifeline = new Lifeline(worker, () => {
      this.#fail(new DeviceLostError("Cannot go on: the GPU worker ended"));
    });
  }

  /** True when the device or the thread is gone and the worker must be replaced. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  ask(message: ToWorker, onEvent: (event: FromWorker) => void = () => {}): Promise<FromWorker> {
    return new Promise((resolve, reject) => {
      if (this.#pending || this.#isBroken) {
        const state = this.#isBroken ? "it has ended" : "it is at work";
        throw new Error(`Cannot ask the GPU worker to ${message.type}: ${state}`);
      }
      this.#worker.postMessage(message);
      this.#pending = { resolve, reject, onEvent };
    });
  }

  /** Tells the thread something while it is at work; there is no answer. */
  tell(message: Message<"compiled" | "cancel">): void {
    if (!this.#isBroken) this.#worker.postMessage(message);
  }

  /** Ends the thread at once and frees its device; a question under way fails with `reason`. */
  terminate(reason: unknown = new Error("Cannot go on: the GPU worker was ended")): void {
    this.#worker.terminate();
    this.#compileThreads.terminate();
    this.#fail(reason);
  }

  /** Ends the thread, and waits up to `limitMs` milliseconds until it has freed its device: a process that exits before may crash. */
  async close(reason?: unknown, limitMs = CLOSE_MS): Promise<void> {
    this.terminate(reason);
    const ends = [this.#lifeline.ended(limitMs), this.#compileThreads.ended(limitMs)];
    if ((await Promise.all(ends)).every(Boolean)) return;
    throw new Error(
      `Cannot free the GPU: its thread is still at work ${
        limitMs / 1000
      } s after it was told to end`,
    );
  }

  #receive(event: FromWorker): void {
    if (event.type === "compile") return void this.#compile(event.task);
    const pending = this.#pending;
    if (!pending) return;
    if (EVENTS.has(event.type)) {
      try {
        pending.onEvent(event);
      } catch (error) {
        this.#fail(error);
      }
      return;
    }
    this.#pending = undefined;
    if (event.type !== "failed") return pending.resolve(event);
    const error = fromErrorRecord(event.error);
    if (error instanceof DeviceLostError) this.#isBroken = true;
    pending.reject(error);
  }

  async #compile(task: CompileTask): Promise<void> {
    await this.#compileThreads.compile(task);
    this.tell({ type: "compiled" });
  }

  #fail(error: unknown): void {
    this.#isBroken = true;
    this.#pending?.reject(error);
    this.#pending = undefined;
  }
}

/** How long a thread may take to end, in milliseconds: what the GPU is at work on has to be done first. */
const CLOSE_MS = 30_000;

const EVENTS: ReadonlySet<FromWorker["type"]> = new Set([
  "note",
  "tuning",
  "checking",
  "loading",
  "compiling",
  "tokenizing",
  "progress",
  "preview",
  "audio",
  "frame",
]);

function startThread(): Worker {
  return new Worker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "denoise-gpu",
  });
}
