/** A job as its clients see it. */

import type { CutPrompt } from "../../engine/types.ts";
import { httpNames } from "../../generation/field_values.ts";
import { SETTING_FIELDS } from "../../generation/fields.ts";
import type { JobListItem, WholeJob } from "../contract/answers.ts";
import { loraFields } from "../../generation/recipe.ts";
import { settingsOf } from "../../generation/settings.ts";
import type { ImageRequest } from "../images/image_request.ts";
import { type KeptInput, resultsOf } from "../inputs/kept_inputs.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";
import type { VideoRequest } from "../videos/video_request.ts";
import type { JobEntry, JobRecord } from "../jobs/job_store.ts";
import type { JobSummary } from "../jobs/job.ts";

/** What a job is shown with. */
interface RecordContext {
  /** Place of the job in the queue, from 1; null for what does not wait. */
  readonly place: number | null;
  /** Whether the client may see what it makes: it is theirs. */
  readonly isOwn: boolean;
  readonly storage: Pick<ResultStorage, "link"> | undefined;
  readonly publicUrl?: string | undefined;
}

/** What a list shows of a job; prompt and results are null where they are another client's. */
export async function jobListItem(job: JobEntry, context: RecordContext): Promise<JobListItem> {
  const { model, prompt, taskType, width, height, loras = [] } = (job.summary ?? {}) as Partial<
    JobSummary
  >;
  const { cutPrompts } = (job.result ?? {}) as { cutPrompts?: readonly CutPrompt[] };
  const { isOwn, place } = context;
  return {
    id: job.id,
    object: "job",
    kind: job.kind as JobListItem["kind"],
    status: job.status,
    progress: job.progress,
    place,
    created_at: unix(job.createdAt),
    started_at: unix(job.startedAt),
    ended_at: unix(job.endedAt),
    error: job.error,
    prompt: isOwn ? prompt ?? null : null,
    model: isOwn ? model ?? null : null,
    task_type: isOwn ? taskType ?? null : null,
    size: isOwn && width ? `${width}x${height}` : null,
    loras: isOwn ? loras : null,
    outputs: isOwn ? await outputsOf(job, context) : null,
    ...(isOwn && cutPrompts && { cut_prompts: cutPrompts }),
  };
}

/** A job with what was asked for, in `request`, under the names that requests have, so that it can be sent again. */
export async function jobRecord(
  job: JobRecord,
  context: RecordContext,
): Promise<WholeJob> {
  const request = context.isOwn && job.request !== null ? requestFields(job) : null;
  return {
    ...await jobListItem(job, context),
    request,
    inputs: context.isOwn ? inputsOf(job, context) : null,
  };
}

function inputsOf(
  { id, result }: JobEntry,
  { publicUrl = "" }: RecordContext,
): WholeJob["inputs"] {
  const { inputs = [] } = (result ?? {}) as { inputs?: KeptInput[] };
  return inputs.map(({ field, contentType, size }, index) => ({
    field,
    url: `${publicUrl}/v1/jobs/${id}/inputs/${index}`,
    content_type: contentType,
    bytes: size,
  }));
}

function unix<T extends number | null>(milliseconds: T): T {
  return (milliseconds === null ? null : Math.floor(milliseconds / 1000)) as T;
}

async function outputsOf(
  job: JobEntry,
  { storage, publicUrl = "" }: RecordContext,
): Promise<JobListItem["outputs"]> {
  const { files = [] } = (job.result ?? {}) as { files?: StoredFile[] };
  const { seeds = [], prompts } = (job.summary ?? {}) as Partial<JobSummary>;
  const places = [...resultsOf(job.result)];
  return await Promise.all(places.map(async ([index, file]) => {
    const variant = files.length > 1 ? `?variant=${index}` : "";
    const own = `${publicUrl}/v1/${job.kind}s/${job.id}/content${variant}`;
    return {
      index,
      url: await storage?.link(file) ?? own,
      content_type: file.contentType,
      bytes: file.size,
      seed: seeds[index] ?? null,
      ...(prompts && { prompt: prompts[index] }),
    };
  }));
}

/** What was asked for, with the names of HTTP and the model's own values where nothing was said. */
function requestFields({ request: asked, kind }: JobRecord): Record<string, unknown> {
  const request = asked as ImageRequest & Partial<VideoRequest>;
  const settings = Object.entries(settingsOf(request)).map(([name, value]) => [
    httpNames(name, SETTING_FIELDS[name as keyof typeof SETTING_FIELDS])[0],
    value,
  ]);
  const { seeds = [], loras = [], images = [] } = request;
  return {
    prompt: request.prompt,
    ...(request.wildcards && { wildcards: true }),
    // Videos keep the name that was sent, which may be any for a single model.
    model: request.servedModel ?? request.model,
    task_type: request.taskType,
    size: `${request.width}x${request.height}`,
    n: seeds.length,
    seed: seeds.length === 1 ? seeds[0] : seeds,
    ...Object.fromEntries(settings),
    loras: loras.map(loraFields),
    ...(kind === "video"
      ? {
        num_frames: request.numFrames,
        fps: request.fps,
        ...(request.isFragmented && { fragmented: true }),
        ...(request.enableAudio === false && { enable_audio: false }),
        ...(request.audioAlone && { output_format: "wav" }),
      }
      : { output_format: request.format }),
    input_images: images.length,
    input_mask: request.mask !== undefined,
    input_control: request.control !== undefined,
    input_references: request.references?.length ?? 0,
    input_video: request.video !== undefined,
    ...(request.audio && { input_audio: true }),
  };
}
