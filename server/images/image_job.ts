/**
 * An image request on the GPU: one picture after the other, each made into a file.
 *
 * @module
 */

import type { Engine } from "../../engine/types.ts";
import { encodeImage } from "../../media/encode.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import type { ImageRequest } from "../contract/image_generation.ts";
import type { JobContext } from "../jobs/job_queue.ts";
import type { LocalStorage, StoredFile } from "../storage/local.ts";
import { recipeText } from "./recipe.ts";

/** One finished picture. */
export interface ImageOutput {
  /** The file. */
  bytes: Uint8Array<ArrayBuffer>;
  /** Where it is kept; absent when results are not kept. */
  file?: StoredFile;
}

/** All pictures of a request. */
export interface ImageOutcome {
  /** In the order of the seeds. */
  outputs: ImageOutput[];
  /** The prompt that the model read. */
  prompt: string;
  /** From the first step to the last file. */
  seconds: number;
  /** Most device memory taken at once. */
  peakBytes: number;
}

/** What is recorded of a finished request. */
export interface ImageResult {
  /** One entry for each picture; empty when results are not kept. */
  files: StoredFile[];
  /** The prompt that the model read. */
  prompt: string;
}

/** What an image job works with. */
export interface ImageJob {
  /** Makes the pictures. */
  engine: Engine;
  /** What to make. */
  request: ImageRequest;
  /** The model's public name. */
  model: string;
  /** Keeps the files; without it they live in the answer only. */
  storage: LocalStorage | undefined;
  /** Rewrites the prompt, when the request wants that. */
  enhance: ((prompt: string, signal: AbortSignal) => Promise<string>) | undefined;
  /** Told of each picture when it is finished. */
  onOutput?: (output: ImageOutput, index: number) => void;
}

/**
 * Makes the pictures of a request.
 *
 * @param job what to make, with what
 * @param context of the queue
 * @returns the pictures
 * @throws {ApiError} 400 with the engine's words when it refuses the request; anything else that
 * engine, disk or prompt enhancer throw. Files written so far are removed then
 */
export async function runImageJob(job: ImageJob, context: JobContext): Promise<ImageOutcome> {
  const { engine, request, storage } = job;
  const start = performance.now();
  const outputs: ImageOutput[] = [];
  let peakBytes = 0;
  try {
    const prompt = request.enhancePrompt && job.enhance
      ? await job.enhance(request.prompt, context.signal)
      : request.prompt;
    for (const [index, seed] of request.seeds.entries()) {
      const frames = await engine.generate(toEngine(request, prompt, seed), {
        signal: context.signal,
        onProgress: ({ fraction }) => context.progress((index + fraction) / request.seeds.length),
      }).catch(explain);
      context.signal.throwIfAborted();
      peakBytes = Math.max(peakBytes, frames.peakBytes);
      const [data] = frames.frames;
      if (!data) throw new Error("Cannot make a picture: the engine gave no frame");
      const { width, height } = frames;
      const { format, outputQuality: quality } = request;
      const recipe = { ...request, prompt, model: job.model, seed, width, height };
      const { bytes, contentType, extension } = await encodeImage(
        { width, height, data },
        { format, quality, text: recipeText(recipe, format) },
      );
      const many = request.seeds.length > 1;
      const name = `${context.id}${many ? `_${index}` : ""}.${extension}`;
      const file = await storage?.write(name, bytes, contentType);
      const output = file ? { bytes, file } : { bytes };
      outputs.push(output);
      job.onOutput?.(output, index);
    }
    return { outputs, prompt, seconds: (performance.now() - start) / 1000, peakBytes };
  } catch (error) {
    await removeFiles(outputs, storage);
    throw error;
  }
}

/**
 * The part of an outcome that is recorded.
 *
 * @param outcome of a finished job
 * @returns a JSON value
 */
export function toImageResult(outcome: ImageOutcome): ImageResult {
  return { files: outcome.outputs.flatMap(({ file }) => file ?? []), prompt: outcome.prompt };
}

/**
 * Removes the files of outputs. What cannot be removed stays: it is the reason for removing that counts.
 *
 * @param outputs finished ones
 * @param storage that keeps their files
 */
export async function removeFiles(
  outputs: readonly ImageOutput[],
  storage: LocalStorage | undefined,
): Promise<void> {
  for (const { file } of outputs) if (file) await storage?.remove(file.name).catch(() => {});
}

/** What the engine says of a request that it cannot serve is for the client; all else is not. */
function explain(error: unknown): never {
  // A request that the model refuses says so in a sentence; other type errors are defects of ours.
  const isRefusal = error instanceof RangeError || error instanceof TypeError;
  if (isRefusal && error.message.startsWith("Cannot ")) throw badRequest(error.message);
  if (error instanceof Error && error.name === "DeviceLostError") {
    throw new ApiError(
      503,
      "Cannot finish the picture: the GPU was lost, and is started again; send the request again",
      { code: "device_lost", headers: { "retry-after": "5" }, cause: error },
    );
  }
  throw error;
}

function toEngine(request: ImageRequest, prompt: string, seed: number) {
  const { negativePrompt, width, height, numInferenceSteps, guidanceScale } = request;
  return {
    prompt,
    negativePrompt,
    width,
    height,
    numFrames: 1,
    seed,
    numInferenceSteps,
    guidanceScale,
  };
}
