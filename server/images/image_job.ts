/** The images of a request: made, encoded, kept. */

import type { Engine } from "../../engine/types.ts";
import { engineRequest } from "../../generation/prepare.ts";
import { recipeOf, recipeText } from "../../generation/recipe.ts";
import { type PixelImage, toRgb } from "../../media/image.ts";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import { ServiceError, wasDeleted } from "../contract/errors.ts";
import { filesOf, keepInputs, type KeptInput, resultsOf } from "../inputs/kept_inputs.ts";
import { readGiven, readImage } from "../inputs/references.ts";
import type { JobContext } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { type JobFacts, type JobResult, makeOutputs, type StageClock } from "../jobs/outputs.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";
import { type ImageRequest, outputSeeds } from "./image_request.ts";

export interface ImageOutput {
  /** Which of the request's outputs it is, from 0. */
  index: number;
  bytes: Uint8Array<ArrayBuffer>;
  /** File of the image; absent when results are not kept. */
  file?: StoredFile;
}

export interface ImageOutcome extends JobFacts {
  /** Outputs in the order of the seeds, without those that were deleted; of each all layers, where there are some. */
  outputs: ImageOutput[];
  prompt: string;
}

interface ImageJob {
  engine: Engine;
  request: ImageRequest;
  model: string;
  /** Keeps the files; without it they live in the answer only. */
  storage: Pick<ResultStorage, "write" | "remove"> | undefined;
  stages?: StageClock;
}

/**
 * Makes the images of a request.
 *
 * @throws {ServiceError} with the engine's words when it refuses the request; anything else that
 * engine or disk throw. Files written so far are removed then
 */
export async function runImageJob(job: ImageJob, context: JobContext): Promise<ImageOutcome> {
  const { request, storage, model } = job;
  const outputs: ImageOutput[] = [];
  const kept: KeptInput[] = [];
  try {
    if (storage) {
      await keepInputs(context.id, request, kept, async (name, { path, contentType }) => {
        return await storage.write(name, await readGiven(path), contentType);
      });
    }
    const read = (path: string) => readImage(path, context.signal);
    const mask = request.mask && await read(request.mask);
    const inputs = {
      images: await Promise.all(request.images.map(read)),
      ...(mask && { mask: [mask] }),
      ...(request.control && { control: await Promise.all(request.control.map(read)) }),
      ...(request.references && {
        references: await Promise.all(request.references.map(read)),
      }),
      ...(request.referenceMasks && {
        referenceMasks: await Promise.all(request.referenceMasks.map(read)),
      }),
    };
    // Each seed gives as many images as the model has layers.
    const total = outputSeeds(request).length;
    const { previews, format, outputQuality: quality } = request;
    const facts = await makeOutputs({ ...job, previews }, context, async ({ index, generate }) => {
      const seed = request.seeds[index]!;
      const made = await generate({ ...engineRequest(request, seed), ...inputs });
      if (made.frames.length === 0) {
        throw new Error("Cannot make an image: the engine gave no frame");
      }
      const { width, height, channels } = made;
      const isLayer = request.layers !== undefined;
      for (const [layer, data] of made.frames.entries()) {
        const recipe = {
          ...recipeOf(request, { ...made, seed, model }),
          ...(isLayer && { layer }),
        };
        const image = { width, height, data, ...(channels && { channels }) } as PixelImage;
        const { bytes, contentType, extension } = await encodeOwnImage(
          format === "jpeg" ? toRgb(image) : image,
          { format, quality, text: recipeText(recipe, format) },
        );
        const place = index * made.frames.length + layer;
        const name = `${context.id}${total > 1 ? `_${place}` : ""}.${extension}`;
        const file = await storage?.write(name, bytes, contentType);
        outputs[place] = { index: place, bytes, ...(file && { file }) };
        context.output(outputs[place]);
      }
    });
    const { prompt } = request;
    return { outputs, prompt, ...facts, ...(kept.length > 0 && { inputs: kept }) };
  } catch (error) {
    await removeFiles({ outputs: outputs.filter((output) => output), inputs: kept }, storage);
    throw error;
  }
}

/** The part of an outcome that is recorded. */
export function toImageResult({ outputs, prompt: _, ...facts }: ImageOutcome): JobResult {
  return { ...facts, files: outputs.flatMap(({ file }) => file ?? []) };
}

/**
 * The outcome of a job that another process has completed, with the bytes of the files that are left.
 *
 * @throws {ApiError} 409 where all of them were deleted
 * @throws {ServiceError} when no file is there, or one cannot be read
 */
export async function restoreImages(
  { id, result, revisedPrompt }: JobRecord,
  request: ImageRequest,
  storage: ResultStorage | undefined,
): Promise<ImageOutcome> {
  const { files: _, deleted: __, ...facts } = result as JobResult;
  const outputs: ImageOutput[] = [];
  if (storage) {
    const left = resultsOf(result);
    if (left.size === 0) throw wasDeleted(id);
    for (const [index, file] of left) {
      const bytes = await storage.read(file);
      if (bytes) outputs.push({ index, bytes, file });
    }
    if (outputs.length === 0) {
      const message = "Cannot read the result: its file is not where results are kept";
      throw new ServiceError("storage_failed", message);
    }
  }
  return { ...facts, outputs, prompt: revisedPrompt ?? request.prompt };
}

/** Removes all files of an outcome; what cannot be removed stays: it is the reason for removing that counts. */
export async function removeFiles(
  outcome: Pick<ImageOutcome, "outputs" | "inputs">,
  storage: Pick<ResultStorage, "remove"> | undefined,
): Promise<void> {
  const files = outcome.outputs.flatMap(({ file }) => file ?? []);
  for (const file of filesOf({ ...outcome, files })) await storage?.remove(file).catch(() => {});
}
