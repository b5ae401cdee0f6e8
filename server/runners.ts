/** What each kind of job does: the same for a request that has just come and for one that a server left behind. */

import {
  type ImageOutcome,
  removeFiles,
  restoreImages,
  runImageJob,
  toImageResult,
} from "./images/image_job.ts";
import { type ImageRequest, outputSeeds } from "./images/image_request.ts";
import { filesOf } from "./inputs/kept_inputs.ts";
import type { Engine } from "../engine/types.ts";
import { resultSize } from "../engine/result_size.ts";
import { type PromptEnhancer, PromptRewrite } from "./prompts/enhancer.ts";
import { endOf, isStopping, jobSummary, type NewJob } from "./jobs/job.ts";
import { DAMAGED, INTERRUPTED, type JobError, type JobRecord } from "./jobs/job_store.ts";
import type { ServedModels } from "./served_models.ts";
import type { ServerSettings } from "./settings.ts";
import type { ResultStorage } from "./storage/result_storage.ts";
import type { Ffmpeg } from "../media/video/mod.ts";
import { type TracedJob, tracedJob, type Tracing } from "./telemetry/tracing.ts";
import { UnfinishedVideos } from "./videos/unfinished_videos.ts";
import type { JobResult } from "./jobs/outputs.ts";
import { runVideoJob } from "./videos/video_job.ts";
import { videoSummary } from "./videos/video_record.ts";
import { VIDEO_PREVIEWS, type VideoRequest } from "./videos/video_request.ts";
import { toApiError } from "./http/respond.ts";
import { loadedModel, type Services } from "./services.ts";

interface RunnerServices {
  readonly models: ServedModels;
  readonly settings: ServerSettings;
  readonly storage: ResultStorage | undefined;
  readonly enhancer: PromptEnhancer | undefined;
  readonly ffmpeg: () => Promise<Ffmpeg>;
  readonly tracing?: Tracing | undefined;
}

/** A checked request under the id of its job. */
export interface JobOf<T> {
  readonly id: string;
  readonly request: T;
  /** Whose job it is; see `ownerOf()`. */
  readonly owner?: string;
  /** The prompt as it was rewritten, where that is done already. */
  readonly revisedPrompt?: string | null | undefined;
  /** When it was queued, in Unix milliseconds; now by default. */
  readonly queuedAt?: number;
}

interface OfModel {
  readonly model?: string;
}

/** What is kept of a request to go on its trace. */
interface Traced {
  /** Leads to the span of the request. */
  readonly traceparent?: string;
}

export class Runners {
  /** What is being written of videos. */
  readonly unfinished: UnfinishedVideos = new UnfinishedVideos();
  readonly #services: RunnerServices;

  constructor(services: RunnerServices) {
    this.#services = services;
  }

  image(
    { id, request, owner = "", revisedPrompt, queuedAt }: JobOf<ImageRequest>,
  ): NewJob<ImageOutcome> {
    const { storage, enhancer } = this.#services;
    const name = this.#nameOf(request);
    const task = request.images.length > 0 ? "image_edit" : "image";
    const rewrite = new PromptRewrite(request, { enhancer, task, revisedPrompt });
    const traced = this.#traced({ id, kind: "image", model: name }, request, queuedAt);
    return {
      id,
      kind: "image",
      model: name,
      ...priorityOf(request),
      request: toKeep(request, traced),
      summary: jobSummary(
        { ...request, ...resultSize(request), seeds: outputSeeds(request) },
        name,
        owner,
      ),
      prepare: (signal) => rewrite.prepare(signal),
      work: (context) =>
        tracedJob(this.#services.tracing, traced, async (stages) =>
          runImageJob({
            engine: await this.#engineOf(request, context.signal),
            request: rewrite.request,
            model: name,
            storage,
            stages,
          }, context)),
      toRecord: toImageResult,
      restore: (record) => restoreImages(record, request, storage),
      discard: (outcome) => removeFiles(outcome, storage),
    };
  }

  /** A job that makes videos; the server must keep results. */
  video(
    { id, request, owner = "", revisedPrompt, queuedAt }: JobOf<VideoRequest>,
  ): NewJob<JobResult> {
    const { storage, ffmpeg, enhancer } = this.#services;
    const name = this.#nameOf(request);
    const rewrite = new PromptRewrite(request, { enhancer, task: "video", revisedPrompt });
    const traced = this.#traced({ id, kind: "video", model: name }, request, queuedAt);
    return {
      id,
      kind: "video",
      model: name,
      ...priorityOf(request),
      request: toKeep(request, traced),
      summary: { ...jobSummary(request, name, owner), ...videoSummary(request) },
      prepare: (signal) => rewrite.prepare(signal),
      work: (context) =>
        tracedJob(this.#services.tracing, traced, async (stages) =>
          await runVideoJob({
            engine: await this.#engineOf(request, context.signal),
            request: rewrite.request,
            storage: storage!,
            ffmpeg: await ffmpeg(),
            previews: VIDEO_PREVIEWS,
            stages,
            unfinished: this.unfinished,
          }, context)),
      toRecord: (result) => result,
      restore: (record) => Promise.resolve(record.result as JobResult),
      discard: async (result) => {
        for (const file of filesOf(result)) await storage?.remove(file).catch(() => {});
      },
    };
  }

  #traced(
    job: Pick<TracedJob, "id" | "kind" | "model">,
    request: object,
    queuedAt = Date.now(),
  ): TracedJob {
    const { traceparent = this.#services.tracing?.current } = request as Traced;
    return { ...job, queuedAt, traceparent };
  }

  /** What the model of a job is called, also where it is gone. */
  #nameOf({ model }: OfModel): string {
    const { models } = this.#services;
    return models.choose(model)?.name ?? model ?? models.first.name;
  }

  /** The model of a job that runs. @throws {ApiError} 404 where it is gone */
  async #engineOf({ model }: OfModel, signal: AbortSignal): Promise<Engine> {
    const { models } = this.#services;
    await models.seek(model);
    return await loadedModel(models, models.pick(model), signal);
  }

  /** The job of a record, to be run again; nothing for a kind that this version does not know. */
  again(
    { id, kind, request, revisedPrompt, createdAt: queuedAt }: JobRecord,
  ): NewJob<unknown> | undefined {
    const job = kind === "image"
      ? this.image({ id, request: request as ImageRequest, revisedPrompt, queuedAt })
      : kind === "video" && this.#services.storage
      ? this.video({ id, request: request as VideoRequest, revisedPrompt, queuedAt })
      : undefined;
    return job && { ...job, isRecorded: true } as NewJob<unknown>;
  }
}

/** Jobs of the tier `flex` let others go first. */
function priorityOf(
  { serviceTier }: Pick<ImageRequest, "serviceTier">,
): Pick<NewJob<unknown>, "priority"> {
  return serviceTier === "flex" ? { priority: -1 } : {};
}

/** A request without what was of use to its client alone, and may have any length. */
function toKeep<T extends { ignored: string[] }>(
  request: T,
  { traceparent }: TracedJob,
): T & Traced {
  return { ...request, ignored: [], ...(traceparent === undefined ? {} : { traceparent }) };
}

/** Queues jobs that were left. Their ends are in their records. */
export async function resumeJobs(
  { store, queue, runners, log }: Services,
  records: readonly JobRecord[],
): Promise<void> {
  let queued = 0;
  for (const record of records) {
    const fail = (error: JobError) =>
      store.update(record.id, { status: "failed", endedAt: Date.now(), error });
    const job = runners.again(record);
    if (record.error?.code === DAMAGED.code) await fail(DAMAGED);
    else if (!job) {
      const message = `Cannot run the job again: this server makes no "${record.kind}"`;
      await fail({ code: INTERRUPTED.code, message });
    } else {
      try {
        const { outcome } = await queue.add(job);
        queued++;
        outcome.catch((error) => toApiError(error, record.id, log));
      } catch (error) {
        // What a stopping server refuses is left for the next one.
        if (!isStopping(error)) await store.update(record.id, endOf(error));
      }
    }
  }
  if (queued > 0) log(`Queued ${queued} jobs again that were left unfinished`);
}
