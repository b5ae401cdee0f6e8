/** A request at work: what it asks for, the queue that its programs go through, and what comes out. */
import type { Waveform } from "../../media/waveform.ts";
import type { Components } from "../memory/residency.ts";
import type { Phase } from "../memory/session.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import type { Finishing } from "./finishing.ts";
import { Composition, isInpainting } from "./inpainting.ts";
import { explainNonFinite, isFinite } from "./non_finite.ts";
import { overWhite, toUnitRange } from "./pixels.ts";
import type { PromptCache } from "./prompt_cache.ts";
import type { PipelineControl, PipelineRequest, PipelineResult } from "./types.ts";

/** What is known from an attempt that found factors beyond f16 after the last step. */
export interface Attempt {
  denoised?: Float32Array;
  frames: number;
  /** Whether its sound was given. */
  hasAudio?: boolean;
}

interface WorkOptions extends
  Pick<
    Work,
    | "request"
    | "control"
    | "tokens"
    | "weights"
    | "pooledTokens"
    | "pooledWeights"
    | "thirdTokens"
    | "maxLength"
    | "encoded"
    | "attempt"
  > {
  readonly queue: StageQueue;
  readonly isFirst: boolean;
  readonly components: Components;
  /** Tiles, frames and prompts that are encoded. */
  readonly encodeSteps: number;
  readonly lap: (phase: Phase) => void;
  readonly finishing?: Finishing | undefined;
}

export class Work {
  readonly request: PipelineRequest;
  readonly control: PipelineControl;
  readonly tokens: readonly (readonly number[])[];
  /** What every token weighs, in families whose prompts have weights. */
  readonly weights?: readonly (readonly number[])[] | undefined;
  readonly pooledTokens?: readonly (readonly number[])[] | undefined;
  readonly pooledWeights?: readonly (readonly number[])[] | undefined;
  readonly thirdTokens?: readonly (readonly number[])[] | undefined;
  readonly maxLength: number;
  readonly encoded: PromptCache;
  readonly attempt: Attempt;
  clip: { readonly index: number; readonly count: number } = { index: 0, count: 1 };
  readonly #options: WorkOptions;
  readonly #composition: Composition | undefined;
  #encodedSteps = 0;
  #phase: { readonly stage: Phase; readonly isOpen: boolean } | undefined;
  #following: (() => void) | undefined;
  #latents: Float32Array | undefined;
  readonly #frames: Float32Array[] = [];
  #frameCount = 0;
  #audio: Waveform | undefined;

  constructor(options: WorkOptions) {
    this.request = options.request;
    this.control = options.control;
    this.tokens = options.tokens;
    this.weights = options.weights;
    this.pooledTokens = options.pooledTokens;
    this.pooledWeights = options.pooledWeights;
    this.thirdTokens = options.thirdTokens;
    this.maxLength = options.maxLength;
    this.encoded = options.encoded;
    this.attempt = options.attempt;
    this.#options = options;
    // What is put back into a larger image is laid over that one.
    const { paddingMaskCrop } = options.request;
    this.#composition = isInpainting(options.request) && paddingMaskCrop === undefined
      ? new Composition(options.request)
      : undefined;
    options.finishing?.begin();
    this.progress("encode", 0, options.encodeSteps);
  }

  async run(...[calls, work]: Parameters<StageQueue["run"]>): Promise<void> {
    await this.#options.queue.run(calls, work);
    await this.#finishFrames();
  }

  async finish(): Promise<void> {
    const { queue, finishing } = this.#options;
    await queue.finish();
    while (finishing?.hasWaiting) {
      await this.#finishFrames();
      await queue.finish();
    }
  }

  async #finishFrames(): Promise<void> {
    const { queue, finishing } = this.#options;
    await finishing?.run(queue, (frame) => this.#give(frame));
  }

  #give(frame: Float32Array): void {
    this.#frameCount++;
    if (this.control.onFrame) this.control.onFrame(frame);
    else this.#frames.push(frame);
  }

  /**
   * Reports progress, and the time since the last report; steps of all clips count, and decoding of the last. A phase begins
   * after the end of the one before, of which the device may be known to be done later.
   */
  progress(stage: Phase, step: number, totalSteps: number): void {
    if (step === 0 && stage !== this.#phase?.stage && this.#phase?.isOpen) {
      this.#following = () => this.#tell(stage, 0, totalSteps);
      return;
    }
    if (this.#phase?.stage !== stage) this.#follow();
    this.#tell(stage, step, totalSteps);
    if (!this.#phase!.isOpen) this.#follow();
  }

  #follow(): void {
    const following = this.#following;
    this.#following = undefined;
    following?.();
  }

  #tell(stage: Phase, step: number, totalSteps: number): void {
    this.#phase = { stage, isOpen: step < totalSteps };
    if (step > 0) this.#options.lap(stage);
    const { index, count } = this.clip;
    if (stage === "decode" && index < count - 1) return;
    const before = stage === "denoise" ? index * totalSteps : 0;
    const all = stage === "denoise" ? count * totalSteps : totalSteps;
    this.control.onProgress?.({ stage, step: before + step, totalSteps: all });
  }

  encodeDone(): void {
    const { encodeSteps } = this.#options;
    if (++this.#encodedSteps > encodeSteps) {
      throw new Error(
        `Cannot report step ${this.#encodedSteps} of encoding: there are ${encodeSteps}; ` +
          "add what is encoded to the session's encodeSteps while tracing",
      );
    }
    this.progress("encode", this.#encodedSteps, encodeSteps);
  }

  takeLatents(latents: Float32Array): void {
    this.#latents = latents;
    if (!isFinite(latents)) throw this.nonFinite("the transformer");
  }

  /** Takes the sound, which goes before the frames: the file that they are written to begins with it. */
  takeAudio(audio: Waveform): void {
    if (this.#frameCount > 0) {
      throw new Error(
        `Cannot take the sound: ${this.#frameCount} frames went before; decode it before them`,
      );
    }
    if (!audio.channels.every(isFinite)) throw this.nonFinite("the vocoder", "vocoder");
    if (!this.control.onAudio) this.#audio = audio;
    else if (!this.attempt.hasAudio) this.control.onAudio(audio);
    this.attempt.hasAudio = true;
  }

  /** Takes decoded pixels, [frames, height, width, channels] in [-1, 1]; masks and upscalers know no alpha. */
  takeFrames(
    pixels: Float32Array,
    keep: "all" | "last" | "none" = "all",
    channels = 3,
  ): void {
    if (!isFinite(pixels)) throw this.nonFinite("the autoencoder", "autoencoder");
    const size = this.request.width * this.request.height * channels;
    const first = keep === "all" ? 0 : keep === "last" ? pixels.length - size : pixels.length;
    for (let start = first; start < pixels.length; start += size) {
      const { finishing } = this.#options;
      const own = toUnitRange(pixels.subarray(start, start + size));
      const isPlain = !finishing && !this.#composition;
      const frame = this.composed(channels === 4 && !isPlain ? overWhite(own) : own);
      if (finishing) finishing.take(frame);
      else this.#give(frame);
    }
  }

  composed(frame: Float32Array): Float32Array {
    return this.#composition?.apply(frame) ?? frame;
  }

  result(): Omit<PipelineResult, "timings" | "cutPrompts"> {
    if (!this.#options.isFirst) return { frames: [], latents: new Float32Array() };
    const { isLatent, isAudioAlone } = this.control;
    const lacksFrames = this.#frameCount === 0 && !isLatent && !isAudioAlone;
    if (lacksFrames || !this.#latents) {
      throw new Error(
        `Cannot finish: the family's pipeline gave ${this.#frameCount} frames and ${
          this.#latents ? "its" : "no"
        } latents; run its ResultDecoder last`,
      );
    }
    const audio = this.#audio;
    return { frames: this.#frames, ...(audio && { audio }), latents: this.#latents };
  }

  nonFinite(stage: string, component?: string): Error {
    const { components } = this.#options;
    const parts = component ? [components[component]!] : Object.values(components);
    return explainNonFinite(stage, parts, this.request);
  }
}
