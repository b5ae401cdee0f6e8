/**
 * What each kind of job does: the same for a request that has just come and for one that a server
 * left behind.
 *
 * @module
 */

import type { ImageRequest } from "./contract/image_generation.ts";
import type { PromptEnhancer } from "./enhancer.ts";
import {
  type ImageOutcome,
  type ImageOutput,
  removeFiles,
  runImageJob,
  toImageResult,
} from "./images/image_job.ts";
import { PromptRewrite } from "./prompt_rewrite.ts";
import type { NewJob } from "./jobs/job.ts";
import type { JobRecord } from "./jobs/job_store.ts";
import { jobSummary } from "./jobs/job_summary.ts";
import type { ServedModel, ServedModels } from "./served_models.ts";
import type { ServerSettings } from "./settings.ts";
import type { ResultStorage } from "./storage/result_storage.ts";
import type { Ffmpeg } from "../media/video/mod.ts";
import { runVideoJob, type VideoResult } from "./videos/video_job.ts";
import { videoSummary } from "./videos/video_record.ts";
import { VIDEO_PREVIEWS, type VideoRequest } from "./videos/video_request.ts";

/** What runners work with. */
interface RunnerServices {
  /** The models. */
  readonly models: ServedModels;
  /** What the server was told. */
  readonly settings: ServerSettings;
  /** Keeps results. */
  readonly storage: ResultStorage | undefined;
  /** Rewrites prompts. */
  readonly enhancer: PromptEnhancer | undefined;
  /** Reads and writes video files. */
  readonly ffmpeg: () => Promise<Ffmpeg>;
}

/** A request under its job's id. */
interface JobOf<T> {
  /** The job's id. */
  readonly id: string;
  /** What was asked for. */
  readonly request: T;
  /** Whose job it is; see `ownerOf()`. */
  readonly owner?: string;
  /** The prompt as it was rewritten, where that is done already. */
  readonly revisedPrompt?: string | null | undefined;
}

/** Makes jobs of requests. */
export class Runners {
  readonly #services: RunnerServices;

  /** @param services engine, storage and the rest */
  constructor(services: RunnerServices) {
    this.#services = services;
  }

  /**
   * A job that makes images.
   *
   * @param job its id and request
   * @param onOutput told of each image when it is finished
   * @returns for the queue
   */
  image(
    { id, request, owner = "", revisedPrompt }: JobOf<ImageRequest>,
    onOutput?: (output: ImageOutput, index: number) => void,
  ): NewJob<ImageOutcome> {
    const { storage, enhancer } = this.#services;
    const { name, engine } = this.#modelOf(request);
    const task = request.images.length > 0 ? "image_edit" : "image";
    const rewrite = new PromptRewrite(request, { enhancer, task, revisedPrompt });
    return {
      id,
      kind: "image",
      model: name,
      request: toKeep(request),
      summary: jobSummary(request, owner),
      prepare: (signal) => rewrite.prepare(signal),
      work: (context) =>
        runImageJob({
          engine: engine.engine,
          request: rewrite.request,
          model: name,
          storage,
          ...(onOutput ? { onOutput } : {}),
        }, context),
      toRecord: toImageResult,
      discard: ({ outputs }) => removeFiles(outputs, storage),
    };
  }

  /**
   * A job that makes videos; the server must keep results.
   *
   * @param job its id and request
   * @returns for the queue
   */
  video({ id, request, owner = "", revisedPrompt }: JobOf<VideoRequest>): NewJob<VideoResult> {
    const { storage, ffmpeg, enhancer } = this.#services;
    const { name, engine } = this.#modelOf(request);
    const rewrite = new PromptRewrite(request, { enhancer, task: "video", revisedPrompt });
    return {
      id,
      kind: "video",
      model: name,
      request: toKeep(request),
      summary: { ...jobSummary(request, owner), ...videoSummary(request) },
      prepare: (signal) => rewrite.prepare(signal),
      work: async (context) =>
        runVideoJob({
          engine: engine.engine,
          request: rewrite.request,
          storage: storage!,
          ffmpeg: await ffmpeg(),
          previews: VIDEO_PREVIEWS,
        }, context),
      toRecord: (result) => result,
      discard: async ({ files }) => {
        for (const file of files) await storage?.remove(file).catch(() => {});
      },
    };
  }

  /** One that a server before this one had, and this one has not, is the first. */
  #modelOf({ model }: { readonly model?: string }): ServedModel {
    const { models } = this.#services;
    return (model === undefined ? undefined : models.find(model)) ?? models.first;
  }

  /**
   * The job of a record, to be run again.
   *
   * @param record of a job that has not ended
   * @returns for the queue; nothing for a kind that this version does not know
   */
  again({ id, kind, request, revisedPrompt }: JobRecord): NewJob<unknown> | undefined {
    const job = kind === "image"
      ? this.image({ id, request: request as ImageRequest, revisedPrompt })
      : kind === "video" && this.#services.storage
      ? this.video({ id, request: request as VideoRequest, revisedPrompt })
      : undefined;
    return job && { ...job, isRecorded: true } as NewJob<unknown>;
  }
}

/** A request without what was of use to its client alone, and may have any length. */
function toKeep<T extends { ignored: string[] }>(request: T): T {
  return { ...request, ignored: [] };
}
