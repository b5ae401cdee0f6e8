import type { CutPrompt, PipelineProgress } from "../models/mod.ts";
import type { ModelInfo, Progress } from "./types.ts";

/** Share of a generation that each stage is taken to need until its time is known. */
const STAGES = {
  encode: { start: 0, share: 0.05 },
  denoise: { start: 0.05, share: 0.85 },
  decode: { start: 0.9, share: 0.1 },
};

/** Before anything is computed: the model has to be loaded first. */
export const LOADING: Progress = { stage: "load", step: 0, totalSteps: 0, fraction: 0 };

/** Before anything is computed: kernels that this request is the first to need are compiled. */
export function compiling(step: number, totalSteps: number): Progress {
  return { stage: "compile", step, totalSteps, fraction: 0 };
}

/** Turns finished steps into a share of the whole and a time left. */
export class ProgressClock {
  readonly #now: () => number;
  readonly #start: number;
  #fraction = 0;
  #step = 0;
  #totalSteps = 0;

  /** @param now milliseconds from any moment on */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#start = now();
  }

  update({ stage, step, totalSteps }: PipelineProgress): Progress {
    const { start, share } = STAGES[stage];
    this.#fraction = Math.max(
      this.#fraction,
      start + share * (totalSteps > 0 ? step / totalSteps : 0),
    );
    if (stage === "denoise") {
      this.#step = step;
      this.#totalSteps = totalSteps;
    }
    const elapsed = (this.#now() - this.#start) / 1000;
    // The first steps compile shaders: an estimate from them would be far too long.
    const isKnown = stage !== "encode" && (stage !== "denoise" || step >= 2);
    return {
      stage,
      step: this.#step,
      totalSteps: this.#totalSteps,
      fraction: this.#fraction,
      ...(isKnown ? { etaSeconds: elapsed * (1 - this.#fraction) / this.#fraction } : {}),
    };
  }
}

/** What of a prompt is not read, why, and what helps, in a sentence. */
export function describeCut(
  { prompt, tokens, read, unread }: CutPrompt,
  { maxSequenceLength: most = 0 }: Partial<Pick<ModelInfo, "maxSequenceLength">> = {},
): string {
  const name = prompt.replace("_", " ");
  if (read === 0) return `The ${name} is not read, for there is no guidance: "${unread}"`;
  const more = read < most ? `; max_sequence_length reads up to ${most}` : "";
  return `The ${name} has ${tokens} tokens, and the first ${read} are read; not read: "${unread}"${more}`;
}
