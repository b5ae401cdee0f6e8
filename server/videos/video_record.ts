/** A video job as its clients see it. */

import type { CutPrompt } from "../../engine/types.ts";
import type { JobEntry, JobRecord } from "../jobs/job_store.ts";
import type { JobSummary } from "../jobs/job_summary.ts";
import type { ServerSettings } from "../settings.ts";
import type { ResultStorage } from "../storage/result_storage.ts";
import type { VideoResult } from "./video_job.ts";
import type { VideoRequest } from "./video_request.ts";

/** The part of a video request that its record shows. */
type VideoSummary = Pick<
  VideoRequest,
  "model" | "width" | "height" | "numFrames" | "fps" | "seeds"
>;

/** What a record shows that is damaged. */
const UNKNOWN: VideoSummary = { model: "", width: 0, height: 0, numFrames: 0, fps: 1, seeds: [] };

/** The record of a video, with the fields of the contract in their order. */
interface VideoRecord {
  /** `video_…` with a UUID. */
  id: string;
  /** Always `video`. */
  object: "video";
  /** The name that the request has for the model, else the served name. */
  model: string;
  /** `deleted` in the answer to a deletion only. */
  status: JobEntry["status"] | "deleted";
  /** Work that the GPU has finished, 0 to 100. */
  progress: number;
  /** Unix seconds. */
  created_at: number;
  /** `<width>x<height>`. */
  size: string;
  /** What was asked for, in lists its beginning; null where the video is of another key. */
  prompt: string | null;
  /** Whole seconds, as a text. */
  seconds: string;
  /** Always `standard`; the quality tier is not in the record. */
  quality: "standard";
  /** A link to the file when it is kept in a cloud; it works for an hour. */
  url: string | null;
  /** Always null: videos are not remixed. */
  remixed_from_video_id: null;
  /** Unix seconds; null unless completed. */
  completed_at: number | null;
  /** Unix seconds; when the file will be removed, null for never. */
  expires_at: number | null;
  /** Why it failed. */
  error: { code: string; message: string } | null;
  /** Where the first video is on the server; null unless completed, and where it is elsewhere. */
  file_path: string | null;
  /** Where every video is that is on the server; null where none is. */
  file_paths: string[] | null;
  /** Number of videos; null unless completed. */
  num_outputs: number | null;
  /** Most device memory taken, in MiB. */
  peak_memory_mb: number | null;
  cut_prompts?: readonly CutPrompt[];
  /** Time that the GPU took, in seconds. */
  inference_time_s: number | null;
  /** Always null: no model here acts. */
  action: null;
  /** The prompt as it was rewritten; null when it was not, and of another client's job. */
  revised_prompt: string | null;
  /** Makes the same videos again: one for each; none of another client's job. */
  seeds: number[];
}

/** The part of a request that its record shows. */
export function videoSummary(request: VideoRequest): VideoSummary {
  const { model, width, height, numFrames, fps, seeds } = request;
  return { model, width, height, numFrames, fps, seeds };
}

/**
 * The record of a job.
 *
 * @param job of kind `video`
 * @param isOwn whether it is that of whoever asks; prompts and seeds are not for others
 * @param services say where results are, and how long they are kept
 */
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
  const result = isCompleted ? job.result as VideoResult : undefined;
  const first = result?.files[0];
  const paths = result?.files.flatMap((file) => storage?.pathOf(file) ?? []) ?? [];
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
    num_outputs: result?.files.length ?? null,
    peak_memory_mb: result && result.peakBytes > 0 ? result.peakBytes / 2 ** 20 : null,
    inference_time_s: result?.seconds ?? null,
    ...(isOwn && result?.cutPrompts && { cut_prompts: result.cutPrompts }),
    action: null,
    revised_prompt: isOwn ? job.revisedPrompt : null,
    seeds: isOwn ? seeds : [],
  };
}
