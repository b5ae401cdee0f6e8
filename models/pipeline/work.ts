/** A request at work: what it asks for, the queue that its programs go through, and what comes out. */
import type { StageQueue } from "../memory/session_runner.ts";
import type { Components } from "../memory/components.ts";
import { explainNonFinite, isFinite } from "./non_finite.ts";
import { toUnitRange } from "./pixels.ts";
import type { PromptCache } from "./prompt_cache.ts";
import type { PipelineControl, PipelineRequest } from "./types.ts";

/** What a request is made from. */
export interface WorkOptions {
  readonly request: PipelineRequest;
  readonly control: PipelineControl;
  /** Where its calls go. */
  readonly queue: StageQueue;
  /** Token ids of every prompt, without padding. */
  readonly tokens: readonly (readonly number[])[];
  /** Tokens that prompts are cut to. */
  readonly maxLength: number;
  /** Prompts that were encoded before. */
  readonly encoded: PromptCache;
  /** For messages about values that are not finite. */
  readonly components: Components;
  /** Told when a phase has finished something. */
  readonly lap: (phase: string) => void;
}

/** See the file comment. */
export class Work {
  readonly request: PipelineRequest;
  readonly control: PipelineControl;
  readonly tokens: WorkOptions["tokens"];
  readonly maxLength: number;
  readonly encoded: PromptCache;
  readonly components: Components;
  /** Final latents in the transformer's normalised units. */
  latents: Float32Array = new Float32Array();
  /** RGB in [0, 1], unless the caller takes frames as they come. */
  readonly frames: Float32Array[] = [];
  #encodeSteps = { done: 0, total: 1 };
  readonly #queue: StageQueue;
  readonly #lap: (phase: string) => void;

  /** Nothing is queued yet. */
  constructor({ request, control, queue, lap, ...others }: WorkOptions) {
    this.request = request;
    this.control = control;
    this.tokens = others.tokens;
    this.maxLength = others.maxLength;
    this.encoded = others.encoded;
    this.components = others.components;
    this.#queue = queue;
    this.#lap = lap;
  }

  /** Queues calls; see {@linkcode StageQueue.run}. */
  run(...[calls, work]: Parameters<StageQueue["run"]>): Promise<void> {
    return this.#queue.run(calls, work);
  }

  /** Waits until everything that was queued is finished. */
  finish(): Promise<void> {
    return this.#queue.finish();
  }

  /** Reports progress, and the time that the phase has taken since the last report. */
  progress(stage: "encode" | "denoise" | "decode", step: number, totalSteps: number): void {
    if (step > 0) this.#lap(stage);
    this.control.onProgress?.({ stage, step, totalSteps });
  }

  /**
   * Reports that encoding begins.
   *
   * @param images tiles or frames of the inputs; the prompts are one step more
   */
  beginEncoding(images: number): void {
    this.#encodeSteps = { done: 0, total: images + 1 };
    this.progress("encode", 0, this.#encodeSteps.total);
  }

  /** Reports that a tile or frame, or the prompts, are encoded. */
  encodeDone(): void {
    const { done, total } = this.#encodeSteps;
    this.#encodeSteps = { done: done + 1, total };
    this.progress("encode", done + 1, total);
  }

  /**
   * Takes the final latents.
   *
   * @throws {Error} when they are not finite
   */
  takeLatents(latents: Float32Array): void {
    this.latents = latents;
    if (!isFinite(latents)) throw this.nonFinite("the transformer");
  }

  /**
   * Takes decoded pixels, [frames, height, width, 3] in [-1, 1].
   *
   * @param keep which of the frames belong to the result
   * @throws {Error} when they are not finite
   */
  takeFrames(pixels: Float32Array, keep: "all" | "last" | "none" = "all"): void {
    if (!isFinite(pixels)) throw this.nonFinite("the autoencoder", "autoencoder");
    const size = this.request.width * this.request.height * 3;
    const first = keep === "all" ? 0 : keep === "last" ? pixels.length - size : pixels.length;
    for (let start = first; start < pixels.length; start += size) {
      const frame = toUnitRange(pixels.subarray(start, start + size));
      if (this.control.onFrame) this.control.onFrame(frame);
      else this.frames.push(frame);
    }
  }

  /**
   * Explains values that are not finite.
   *
   * @param stage what gave them, such as `the transformer`
   * @param component whose weights are searched; all of them when left out
   */
  nonFinite(stage: string, component?: string): Error {
    const parts = component ? [this.components[component]!] : Object.values(this.components);
    return explainNonFinite(stage, parts, this.request.guidanceScale);
  }
}
