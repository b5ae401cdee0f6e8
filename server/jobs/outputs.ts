/** The outputs of one job: one after the other, or as many at once as there are cards. */

import type {
  CutPrompt,
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  Image,
  Progress,
} from "../../engine/types.ts";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import type { JobLora } from "../contract/lora_requests.ts";
import { explainEngineFailure, toLoraUses } from "../loras/engine_failure.ts";
import type { KeptInput } from "../inputs/kept_inputs.ts";
import type { StoredFile } from "../storage/result_storage.ts";
import type { JobContext, JobProgress } from "./job.ts";

/** What is known of a job that is done; a JSON value. */
export interface JobFacts {
  /** Seconds from the first step to the last file. */
  seconds: number;
  /** Most device memory taken at once, in bytes. */
  peakBytes: number;
  /** Prompts that were not read as a whole; none where all were. */
  cutPrompts?: readonly CutPrompt[];
  /** What the time went into, as far as it is known. */
  stageSeconds?: StageSeconds;
  /** What the request brought; absent where it brought nothing, or that is not kept. */
  inputs?: KeptInput[];
}

/** What is recorded of a finished job. */
export interface JobResult extends JobFacts {
  /** One for each output; empty where results are not kept. */
  files: StoredFile[];
  /** Which of them were deleted, from 0. */
  deleted?: readonly number[];
}

/** A job's outputs, and what makes them. */
interface Outputs {
  readonly engine: Engine;
  readonly request: { readonly seeds: readonly number[]; readonly loras: readonly JobLora[] };
  readonly previews: number;
  readonly stages?: StageClock | undefined;
}

interface Output {
  readonly index: number;
  /** Fires when the job ends, or another output has failed. */
  readonly signal: AbortSignal;
  /** Has the engine make it; LoRAs are those of the job. */
  generate(
    request: Omit<GenerateRequest, "loras">,
    taker?: Pick<GenerationControl, "onFrame" | "onAudio">,
  ): Promise<Frames>;
}

/** @throws {ServiceError} with the engine's words when it refuses the request; what else engine and `make` throw */
export async function makeOutputs(
  { engine, request: { seeds, loras }, previews: count, stages = new StageClock() }: Outputs,
  context: JobContext,
  make: (output: Output) => Promise<void>,
): Promise<JobFacts> {
  const start = performance.now();
  const all = new OutputProgress(seeds.length);
  let peakBytes = 0;
  let cutPrompts: readonly CutPrompt[] = [];
  const generating =
    (index: number, signal: AbortSignal): Output["generate"] => async (request, taker) => {
      const previews = new PreviewEncoder(index, context);
      stages.enter("prepare");
      const made = await engine.generate({ ...request, loras: toLoraUses(loras) }, {
        job: context.id,
        signal,
        onProgress: (progress) => {
          stages.enter(progress.stage);
          context.progress(all.update(progress, index));
        },
        ...(taker?.onFrame && { onFrame: taker.onFrame }),
        ...(taker?.onAudio && { onAudio: taker.onAudio }),
        previews: count,
        onPreview: (image, preview) => previews.encode(image, preview),
      }).catch((error) => explainEngineFailure(error, loras));
      stages.enter("store");
      signal.throwIfAborted();
      all.end(index);
      await previews.finish();
      peakBytes = Math.max(peakBytes, made.peakBytes);
      cutPrompts = made.cutPrompts ?? [];
      return made;
    };
  const work = { count: seeds.length, lanes: engine.lanes, signal: context.signal };
  await inLanes(
    work,
    (index, signal) => make({ index, signal, generate: generating(index, signal) }),
  );
  stages.enter();
  return {
    seconds: (performance.now() - start) / 1000,
    peakBytes,
    ...(cutPrompts.length > 0 && { cutPrompts }),
    stageSeconds: stages.seconds,
  };
}

interface Lanes {
  readonly count: number;
  /** How many at once; 1 by default. */
  readonly lanes?: number | undefined;
  readonly signal: AbortSignal;
}

/** Makes outputs; the signal of `make` fires, too, when another one has failed. @throws what failed first, when the others have ended */
export async function inLanes<T>(
  { count, lanes = 1, signal }: Lanes,
  make: (index: number, signal: AbortSignal) => Promise<T>,
): Promise<T[]> {
  const made: T[] = [];
  if (Math.min(lanes, count) <= 1) {
    for (let index = 0; index < count; index++) made.push(await make(index, signal));
    return made;
  }
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const failures: unknown[] = [];
  let next = 0;
  const lane = async () => {
    while (next < count && failures.length === 0) {
      const index = next++;
      try {
        made[index] = await make(index, either);
      } catch (error) {
        failures.push(error);
        failed.abort(new DOMException("Another output of the request failed", "AbortError"));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, count) }, lane));
  signal.throwIfAborted();
  if (failures.length > 0) throw failures[0];
  return made;
}

/** How far each output is. */
export class OutputProgress {
  readonly #count: number;
  readonly #outputs: (Pick<Progress, "fraction" | "step" | "totalSteps"> | undefined)[] = [];

  constructor(count: number) {
    this.#count = count;
  }

  update({ stage, fraction, step, totalSteps, etaSeconds }: Progress, index: number): JobProgress {
    const count = this.#count;
    const outputs = this.#outputs;
    outputs[index] = { fraction, step, totalSteps };
    let [done, steps, begun] = [0, 0, 0];
    for (const output of outputs) {
      if (output) [done, steps, begun] = [done + output.fraction, steps + output.step, begun + 1];
    }
    const atWork = outputs.filter((output) => output && output.fraction < 1).length;
    const left = 1 - fraction;
    return {
      stage,
      fraction: done / count,
      step: steps,
      totalSteps: count * totalSteps,
      // The outputs to come take as long as this one, as far as is known.
      ...(etaSeconds === undefined || left <= 0 ? {} : {
        etaSeconds: etaSeconds * (left + (count - begun) / Math.max(1, atWork)) / left,
      }),
    };
  }

  end(index: number): void {
    const { totalSteps = 0 } = this.#outputs[index] ?? {};
    this.#outputs[index] = { fraction: 1, step: totalSteps, totalSteps };
  }
}

/** Makes files of the previews of one output, in the order in which they come. */
class PreviewEncoder {
  readonly #output: number;
  readonly #context: JobContext;
  #last: Promise<void> = Promise.resolve();

  constructor(output: number, context: JobContext) {
    this.#output = output;
    this.#context = context;
  }

  /** Takes a preview; a preview that cannot be encoded is omitted. */
  encode(image: Image, index: number): void {
    this.#last = this.#last.then(async () => {
      const { width, height, data } = image;
      const { bytes, contentType } = await encodeOwnImage({ width, height, data }, {
        format: "png",
      });
      this.#context.preview({ output: this.#output, index, bytes, contentType });
    }).catch(() => {});
  }

  /** Resolves when all previews so far have been passed on. */
  finish(): Promise<void> {
    return this.#last;
  }
}

/** `prepare`: kernels are chosen and compiled; `store`: the file is made and kept; else what the engine says. */
export type JobStage = "prepare" | Progress["stage"] | "store";

/** Seconds by stage; those that a job did not have are omitted. */
export type StageSeconds = Partial<Record<JobStage, number>>;

export class StageClock {
  /** Seconds by stage, of those that have ended. */
  readonly seconds: StageSeconds = {};
  readonly #onEnd: (stage: JobStage, from: number, to: number) => void;
  #stage: JobStage | undefined;
  #from = 0;

  /** @param onEnd told of each stage that has ended, with its times in Unix milliseconds */
  constructor(onEnd: (stage: JobStage, from: number, to: number) => void = () => {}) {
    this.#onEnd = onEnd;
  }

  /** Ends the stage under way, where it is another, and begins this one; nothing where the work has ended. */
  enter(stage?: JobStage): void {
    if (stage === this.#stage) return;
    const now = performance.timeOrigin + performance.now();
    if (this.#stage !== undefined) {
      const before = this.seconds[this.#stage] ?? 0;
      this.seconds[this.#stage] = before + (now - this.#from) / 1000;
      this.#onEnd(this.#stage, this.#from, now);
    }
    this.#stage = stage;
    this.#from = now;
  }
}
