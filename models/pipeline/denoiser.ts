/** The denoising loop: every step is the transformer, once for each prompt, guidance, and the solver. */
import {
  type Call,
  combine,
  copyTo,
  type DeviceTensor,
  f32,
  type InputSpec,
  type Program,
  type Target,
  type Tensor,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { Schedule } from "../schedulers/mod.ts";
import type { Decoder } from "./decoding.ts";
import { type Guidance, limitedGuidance } from "./guidance.ts";
import { isFinite, OverflowError } from "./non_finite.ts";
import { toUnitRange } from "./pixels.ts";
import { Solver, splitOutputs } from "./solver.ts";
import type { Work } from "./work.ts";

/** How unfinished samples are shown. */
export interface PreviewOptions {
  /** Of the same stage. */
  readonly decoder: Decoder;
  /** The part of a sample, or of an output, that is shown; all of it when left out. */
  readonly part?: (x: Tensor) => Tensor;
  /** What the decoder takes of that part. */
  readonly decoded: (part: Tensor) => Tensor;
}

/** What a {@linkcode Denoiser} is made of. */
export interface DenoiserOptions {
  readonly schedule: Schedule;
  /** The noisy latents as the transformer takes them, [1, tokens, features]; each step overwrites them. */
  readonly sample: DeviceTensor;
  /** Forward passes; together they give an output for each prompt, [prompts, tokens, features]. */
  readonly passes: readonly Program<Record<never, never>, Tensor>[];
  /** Narrowest operands of the passes. */
  readonly operands?: Target["operands"] | undefined;
  /** Whether guidance has a limit; see {@linkcode Guidance.limit}. */
  readonly isLimited?: boolean;
  /** Where unfinished samples are shown. */
  readonly preview?: PreviewOptions | undefined;
}

/** What a request decides of the loop. */
export interface DenoiseOptions {
  readonly guidance: Guidance;
  /** Writes what the passes take of step `i`. */
  readonly inputs: (i: number) => Call;
  /** Steps that use the outputs of the step before again. */
  readonly reused?: readonly number[];
}

interface Limit {
  readonly guided: Program<{ readonly limits: InputSpec }>;
  readonly unguided: Program<Record<never, never>>;
}

/** See the file comment. */
export class Denoiser {
  readonly #options: DenoiserOptions;
  readonly #solver: Solver;
  readonly #limit: Limit | undefined;
  readonly #preview: Program<{ readonly weights: InputSpec }> | undefined;

  /** Traces what the loop needs beside the passes. */
  constructor(stage: Stage, options: DenoiserOptions) {
    this.#options = options;
    const { sample, passes, schedule, isLimited, preview } = options;
    const outputs = passes.map((pass) => pass.outputs);
    const velocity = isLimited ? stage.tensor("guided", sample.shape) : undefined;
    this.#limit = velocity && traceLimit(stage, outputs, velocity);
    const state = { sample, outputs: velocity ? [velocity] : outputs };
    this.#solver = new Solver(stage, schedule, state);
    this.#preview = preview && tracePreview(stage, state.sample, state.outputs, preview);
    stage.willRead(sample);
  }

  /**
   * All steps of a request.
   *
   * @throws {Error} when the sample is not finite after the first step
   * @throws {OverflowError} when wider operands may help against that
   */
  async run(work: Work, { guidance, inputs, reused = [] }: DenoiseOptions): Promise<void> {
    const { schedule, sample, preview } = this.#options;
    const totalSteps = schedule.timesteps.length;
    const shown = preview ? previewSteps(totalSteps, work.control.previews ?? 0) : [];
    for (let i = 0; i < totalSteps; i++) {
      const weights = guidance.limit ? [guidance.limit.sign] : guidance.weights(i);
      const calls = [inputs(i), ...reused.includes(i) ? [] : this.#passes(i, guidance)];
      if (i === 0) calls.unshift({ write: () => work.progress("denoise", 0, totalSteps) });
      const isShown = shown.includes(i);
      if (isShown) {
        const sigma = schedule.sigmas[i]!;
        calls.push(this.#preview!.call({ weights: [1, ...weights.map((w) => -sigma * w)] }));
      }
      await work.run([...calls, this.#solver.call(i, weights)], {
        // What is wrong after the first step is wrong to the end.
        reads: i === 0 ? [sample] : [],
        finished: ([values]) => {
          if (values) this.#checkFirstStep(values, work);
          work.progress("denoise", i + 1, totalSteps);
        },
      });
      if (!isShown) continue;
      await preview!.decoder.run(work, {
        received: (_, pixels) =>
          pixels && work.control.onPreview?.(toUnitRange(pixels), shown.indexOf(i)),
      });
    }
  }

  /** The transformer in step `i`, and what guidance makes of it where it is limited. */
  #passes(i: number, { isGuided, limit }: Guidance): Call[] {
    const { passes } = this.#options;
    const guided = isGuided?.(i) ?? true;
    const calls = (guided ? passes : passes.slice(0, 1)).map((pass) => pass.call({}));
    if (!limit) return calls;
    const { guided: guide, unguided } = this.#limit!;
    const isCombined = guided && passes.length > 1;
    return [
      ...calls,
      isCombined ? guide.call({ limits: [limit.scale, limit.ratio] }) : unguided.call({}),
    ];
  }

  #checkFirstStep(sample: Float32Array, work: Work): void {
    const { operands = "f32" } = this.#options;
    if (isFinite(sample)) return;
    throw operands === "f32" ? work.nonFinite("the transformer") : new OverflowError(operands);
  }
}

function traceLimit(stage: Stage, outputs: readonly DeviceTensor[], velocity: DeviceTensor): Limit {
  const [positive, negative] = outputs;
  return {
    guided: stage.program(
      "guide",
      { positive, negative, limits: f32(1, 1, 2) },
      ({ positive, negative, limits }) =>
        copyTo(limitedGuidance(positive!, negative!, limits), velocity),
    ) as unknown as Limit["guided"],
    unguided: stage.program(
      "unguided",
      { positive },
      ({ positive }) => copyTo(positive!, velocity),
    ) as unknown as Limit["unguided"],
  };
}

/** An unfinished sample as it would be without its noise, x0 = x − σ·v, as the decoder takes it. */
function tracePreview(
  stage: Stage,
  sample: DeviceTensor,
  outputs: readonly DeviceTensor[],
  { decoder, part = (x) => x, decoded }: PreviewOptions,
): Program<{ readonly weights: InputSpec }> {
  const count = outputs.reduce((sum, { shape }) => sum + shape[0]!, 1);
  return stage.program(
    "preview",
    { sample, outputs, weights: f32(count) },
    ({ sample, outputs, weights }) => {
      const parts = [sample, ...splitOutputs(outputs)].map(part);
      copyTo(decoded(combine(parts, weights)), decoder.input);
    },
  ) as unknown as Program<{ readonly weights: InputSpec }>;
}

/**
 * After which steps previews are made: at even distances between the first and the last.
 *
 * @param count how many are asked for
 * @returns indices of steps, in order; fewer than asked for where there are fewer steps
 */
function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}
