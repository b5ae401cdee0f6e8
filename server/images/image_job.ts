/**
 * An image request on the GPU: one image after the other, or as many at once as there are cards, each made into a file.
 */

import type { CutPrompt, Engine } from "../../engine/types.ts";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import type { PixelImage } from "../../media/image.ts";
import { type ImageRequest, outputSeeds } from "./image_request.ts";
import { readImage } from "../inputs/images.ts";
import { explainEngineFailure } from "../loras/engine_failure.ts";
import type { JobContext } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { inLanes } from "../jobs/lanes.ts";
import { OutputProgress } from "../jobs/output_progress.ts";
import { PreviewEncoder } from "../jobs/previews.ts";
import { StageClock, type StageSeconds } from "../jobs/stage_clock.ts";
import { toLoraUses } from "../loras/job_lora.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";
import { engineRequest } from "../../generation/prepare.ts";
import { recipeOf } from "../../generation/recipe.ts";
import { recipeText } from "../../generation/recipe_text.ts";

/** One finished image. */
export interface ImageOutput {
  /** The file. */
  bytes: Uint8Array<ArrayBuffer>;
  /** File of the image; absent when results are not kept. */
  file?: StoredFile;
}

/** All images of a request. */
export interface ImageOutcome {
  /** Outputs in the order of the seeds; of each all layers, where there are some. */
  outputs: ImageOutput[];
  /** The prompt that the model read. */
  prompt: string;
  /** Seconds from the first step to the last file. */
  seconds: number;
  /** Most device memory taken at once. */
  peakBytes: number;
  /** Prompts that were not read as a whole; none where all were. */
  cutPrompts?: readonly CutPrompt[];
  /** What the time went into, as far as it is known. */
  stageSeconds?: StageSeconds;
}

/** What is recorded of a finished request. */
export interface ImageResult {
  /** One entry for each image; empty when results are not kept. */
  files: StoredFile[];
  /** Most device memory taken at once, in bytes. */
  peakBytes: number;
  /** Prompts that were not read as a whole; none where all were. */
  cutPrompts?: readonly CutPrompt[];
  /** What the time went into, as far as it is known. */
  stageSeconds?: StageSeconds;
}

/** What an image job works with. */
interface ImageJob {
  /** Makes the images. */
  engine: Engine;
  /** What to make. */
  request: ImageRequest;
  /** The model's public name. */
  model: string;
  /** Keeps the files; without it they live in the answer only. */
  storage: ResultStorage | undefined;
  /** Takes the time of each stage. */
  stages?: StageClock;
}

/**
 * Makes the images of a request.
 *
 * @throws {ServiceError} with the engine's words when it refuses the request; anything else that
 * engine or disk throw. Files written so far are removed then
 */
export async function runImageJob(job: ImageJob, context: JobContext): Promise<ImageOutcome> {
  const { engine, request, storage, stages = new StageClock() } = job;
  const start = performance.now();
  const count = request.seeds.length;
  const all = new OutputProgress(count);
  const outputs: ImageOutput[] = [];
  let peakBytes = 0;
  let cutPrompts: readonly CutPrompt[] = [];
  try {
    const images = await Promise.all(
      request.images.map((path) => readImage(path, context.signal)),
    );
    const mask = request.mask && await readImage(request.mask, context.signal);
    const control = request.control && await readImage(request.control, context.signal);
    const inputs = {
      images,
      ...(mask && { mask: [mask] }),
      ...(control && { control }),
      loras: toLoraUses(request.loras),
    };
    // Each seed gives as many images as the model has layers.
    const total = outputSeeds(request).length;
    const make = async (index: number, signal: AbortSignal) => {
      const seed = request.seeds[index]!;
      const previews = new PreviewEncoder(index, context);
      stages.enter("prepare");
      const frames = await engine.generate({ ...engineRequest(request, seed), ...inputs }, {
        job: context.id,
        signal,
        onProgress: (progress) => {
          stages.enter(progress.stage);
          context.progress(all.update(progress, index));
        },
        previews: request.previews,
        onPreview: (image, preview) => previews.encode(image, preview),
      }).catch((error) => explainEngineFailure(error, request.loras));
      stages.enter("store");
      signal.throwIfAborted();
      all.end(index);
      await previews.finish();
      peakBytes = Math.max(peakBytes, frames.peakBytes);
      cutPrompts = frames.cutPrompts ?? [];
      if (frames.frames.length === 0) {
        throw new Error("Cannot make an image: the engine gave no frame");
      }
      const { width, height, channels } = frames;
      const { format, outputQuality: quality } = request;
      for (const [layer, data] of frames.frames.entries()) {
        const recipe = {
          ...recipeOf(request, { ...frames, seed, model: job.model }),
          ...(channels ? { layer } : {}),
        };
        const { bytes, contentType, extension } = await encodeOwnImage(
          { width, height, data, ...(channels ? { channels } : {}) } as PixelImage,
          { format, quality, text: recipeText(recipe, format) },
        );
        const place = index * frames.frames.length + layer;
        const name = `${context.id}${total > 1 ? `_${place}` : ""}.${extension}`;
        const file = await storage?.write(name, bytes, contentType);
        outputs[place] = file ? { bytes, file } : { bytes };
        context.output({ index: place, ...outputs[place] });
      }
    };
    await inLanes({ count, lanes: engine.lanes, signal: context.signal }, make);
    stages.enter();
    const { prompt } = request;
    const seconds = (performance.now() - start) / 1000;
    const cut = cutPrompts.length > 0 ? { cutPrompts } : {};
    return { outputs, prompt, seconds, peakBytes, ...cut, stageSeconds: stages.seconds };
  } catch (error) {
    await removeFiles(outputs.filter((output) => output), storage);
    throw error;
  }
}

/** The part of an outcome that is recorded. */
export function toImageResult(outcome: ImageOutcome): ImageResult {
  const { outputs, prompt: _, seconds: __, ...rest } = outcome;
  return { stageSeconds: {}, ...rest, files: outputs.flatMap(({ file }) => file ?? []) };
}

/**
 * The outcome of a job that another process has completed.
 *
 * @returns the outcome, with the files' bytes
 * @throws {ServiceError} when a file cannot be read
 */
export async function restoreImages(
  { result, revisedPrompt, startedAt, endedAt }: JobRecord,
  request: ImageRequest,
  storage: ResultStorage | undefined,
): Promise<ImageOutcome> {
  const { files, ...rest } = result as ImageResult;
  const outputs: ImageOutput[] = [];
  for (const file of storage ? files : []) outputs.push({ bytes: await storage!.read(file), file });
  const prompt = revisedPrompt ?? request.prompt;
  return { ...rest, outputs, prompt, seconds: ((endedAt ?? 0) - (startedAt ?? 0)) / 1000 };
}

/**
 * Removes the files of outputs. What cannot be removed stays: it is the reason for removing that counts.
 */
export async function removeFiles(
  outputs: readonly ImageOutput[],
  storage: ResultStorage | undefined,
): Promise<void> {
  for (const { file } of outputs) if (file) await storage?.remove(file).catch(() => {});
}
