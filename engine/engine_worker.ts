import { DeviceLostError, NoAdapterError, OutOfMemoryError } from "../runtime/errors.ts";
import type { ErrorRecord, FromWorker, ToWorker } from "./protocol.ts";

/** A worker seen from the main thread: one question at a time, events until the answer. */
export class EngineWorker {
  readonly #worker: Worker;
  #pending: {
    resolve(answer: FromWorker): void;
    reject(error: Error): void;
    onEvent(event: FromWorker): void;
  } | undefined;
  #isBroken = false;

  /** Starts the thread; no device is opened yet. */
  constructor() {
    this.#worker = new Worker(new URL("./worker.ts", import.meta.url), {
      type: "module",
      name: "denoise-gpu",
    });
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(new Error(`Cannot go on: the GPU worker ended (${event.message})`));
    };
  }

  /** True when the device or the thread is gone and the worker must be replaced. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Sends a message and waits for its answer; events in between go to `onEvent`. */
  ask(message: ToWorker, onEvent: (event: FromWorker) => void = () => {}): Promise<FromWorker> {
    if (this.#pending) {
      throw new Error(`Cannot ask the GPU worker to ${message.type}: it is at work`);
    }
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject, onEvent };
      this.#worker.postMessage(message);
    });
  }

  /** Ends the thread at once and frees its device; a question under way fails with `reason`. */
  terminate(reason: Error = new Error("Cannot go on: the GPU worker was ended")): void {
    this.#worker.terminate();
    this.#fail(reason);
  }

  #receive(event: FromWorker): void {
    const pending = this.#pending;
    if (!pending) return;
    if (event.type === "loading" || event.type === "progress") return pending.onEvent(event);
    this.#pending = undefined;
    if (event.type !== "failed") return pending.resolve(event);
    const error = reviveError(event.error);
    if (error instanceof DeviceLostError) this.#isBroken = true;
    pending.reject(error);
  }

  #fail(error: Error): void {
    this.#isBroken = true;
    this.#pending?.reject(error);
    this.#pending = undefined;
  }
}

/** The error of its class again; callers tell bad requests from defects by it. */
function reviveError({ name, message }: ErrorRecord): Error {
  switch (name) {
    case "AbortError":
      return new DOMException(message, name);
    case "RangeError":
      return new RangeError(message);
    case "TypeError":
      return new TypeError(message);
    case "SyntaxError":
      return new SyntaxError(message);
    case "DeviceLostError":
      return new DeviceLostError(message);
    case "NoAdapterError":
      return new NoAdapterError(message);
    case "OutOfMemoryError":
      return new OutOfMemoryError(message, 0, 0);
    default:
      return new Error(message);
  }
}
