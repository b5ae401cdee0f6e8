/** The engine of a server while it loads, once it is there, and when it could not be loaded. */

import type { Engine } from "../engine/types.ts";
import { ServiceError } from "./service_error.ts";

/** Where the engine is. */
type EngineStatus = "loading" | "ready" | "failed";

/** An engine that may still be loading. */
export class EngineState {
  #engine: Engine | undefined;
  #failure: Error | undefined;
  #progress = 0;
  /** Resolves when loading has ended, well or not. */
  readonly settled: Promise<void>;

  constructor(engine: Engine | Promise<Engine>) {
    if (!(engine instanceof Promise)) this.#engine = engine;
    this.settled = Promise.resolve(engine).then(
      (loaded) => void (this.#engine = loaded),
      (error) => void (this.#failure = error instanceof Error ? error : new Error(String(error))),
    );
  }

  /** The engine, once it is loaded. */
  protected get loaded(): Engine | undefined {
    return this.#engine;
  }

  /** Where the engine is. */
  get status(): EngineStatus {
    if (this.loaded) return "ready";
    return this.#failure ? "failed" : "loading";
  }

  /** Loaded share of the model, 0 to 1. */
  get progress(): number {
    return this.loaded ? 1 : this.#progress;
  }

  /** Share of the loading that is done; whoever loads the engine tells it. */
  set progress(fraction: number) {
    this.#progress = Math.min(1, Math.max(0, fraction));
  }

  /** Why loading failed, or undefined. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /**
   * The engine.
   *
   * @throws {ServiceError} until it is loaded
   */
  get engine(): Engine {
    const { loaded } = this;
    if (loaded) return loaded;
    throw this.unavailable();
  }

  /** Why there is no engine. */
  unavailable(): ServiceError {
    if (this.#failure) {
      const message = "Cannot answer: the model could not be loaded";
      return new ServiceError("model_failed", message, { retryAfter: 60 });
    }
    const percent = Math.floor(this.#progress * 100);
    const message = `Cannot answer yet: the model is loading, ${percent} % of it done`;
    return new ServiceError("model_loading", message, { retryAfter: 2 });
  }
}
