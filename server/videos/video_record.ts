/** A video job as its clients see it. */

import type { VideoRecord } from "../contract/answers.ts";
import type { JobEntry, JobRecord } from "../jobs/job_store.ts";
import type { JobSummary } from "../jobs/job.ts";
import type { ServerSettings } from "../settings.ts";
import type { ResultStorage } from "../storage/result_storage.ts";
import { resultsOf } from "../inputs/kept_inputs.ts";
import type { JobResult } from "../jobs/outputs.ts";
import type { VideoRequest } from "./video_request.ts";

/** The part of a video request that its record shows. */
type VideoSummary = Pick<
  VideoRequest,
  "model" | "width" | "height" | "numFrames" | "fps" | "seeds"
>;

/** What a record shows that is damaged. */
const UNKNOWN: VideoSummary = { model: "", width: 0, height: 0, numFrames: 0, fps: 1, seeds: [] };

export function videoSummary(request: VideoRequest): VideoSummary {
  const { model, width, height, numFrames, fps, seeds } = request;
  return { model, width, height, numFrames, fps, seeds };
}

/** Prompts and seeds are for the job's own client, `isOwn`, alone. */
export async function videoRecord(
  job: JobEntry,
  isOwn: boolean,
  { settings: { retainMs }, storage }: {
    readonly settings: Pick<ServerSettings, "retainMs">;
    readonly storage: ResultStorage | undefined;
  },
): Promise<VideoRecord> {
  const summary = { ...UNKNOWN, ...job.summary as VideoSummary & Partial<JobSummary> };
  const { model, width, height, numFrames, fps, seeds } = summary;
  const { prompt = summary.prompt } = ((job as JobRecord).request ?? {}) as Partial<VideoRequest>;
  const isCompleted = job.status === "completed";
  const result = isCompleted ? job.result as JobResult : undefined;
  const files = [...resultsOf(result).values()];
  const [first] = files;
  const paths = files.flatMap((file) => storage?.pathOf(file) ?? []);
  const unix = (milliseconds: number) => Math.floor(milliseconds / 1000);
  return {
    id: job.id,
    object: "video",
    model,
    status: job.status,
    progress: job.progress,
    created_at: unix(job.createdAt),
    prompt: isOwn ? prompt ?? null : null,
    size: `${width}x${height}`,
    seconds: String(Math.round(numFrames / fps)),
    quality: "standard",
    url: first && storage ? await storage.link(first) : null,
    remixed_from_video_id: null,
    completed_at: isCompleted ? unix(job.endedAt ?? 0) : null,
    expires_at: retainMs > 0 && job.endedAt !== null ? unix(job.endedAt + retainMs) : null,
    error: job.error,
    file_path: paths[0] ?? null,
    file_paths: paths.length > 0 ? paths : null,
    num_outputs: result ? files.length : null,
    peak_memory_mb: result && result.peakBytes > 0 ? result.peakBytes / 2 ** 20 : null,
    inference_time_s: result?.seconds ?? null,
    ...(isOwn && result?.cutPrompts && { cut_prompts: result.cutPrompts }),
    action: null,
    revised_prompt: isOwn ? job.revisedPrompt : null,
    seeds: isOwn ? seeds : [],
  };
}
