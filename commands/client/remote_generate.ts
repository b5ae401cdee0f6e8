/**
 * `denoise generate --url`: a running server does the work.
 *
 * @module
 */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { formatOfPath, type TaskType } from "../../mod.ts";
import { outputOf } from "../../generation/mod.ts";
import type { GenerateFlags, Media } from "../generate_flags.ts";
import { outputPaths } from "../output_name.ts";
import { describeProgress, duration, type ProgressBar } from "../progress_bar.ts";
import type { TerminalImage } from "../terminal_image.ts";
import { generationRequest, requestInit } from "./generation_request.ts";
import type { Job, ServerClient } from "./server_client.ts";

/** What the making on a server needs. */
export interface RemoteWork {
  readonly client: ServerClient;
  readonly flags: GenerateFlags;
  /** What is made; the server's model says it when left out. */
  readonly media: Media | undefined;
  /** The file to write, without its ending where `--output` does not name it. */
  readonly name: string;
  readonly bar: ProgressBar;
  /** Shows previews, where they are wanted. */
  readonly screen: TerminalImage | undefined;
  readonly signal: AbortSignal;
}

/**
 * Sends a request, waits for its job and writes the results to files, whose paths go to standard output. The job is
 * cancelled when `signal` fires.
 *
 * @returns what was made, in words
 * @throws {Error} that the server gives as the reason of a failure
 */
export async function generateRemotely(work: RemoteWork): Promise<string> {
  const { client, flags, bar, signal } = work;
  const media = work.media ?? await mediaOfServer(client);
  const file = flags.output ?? `${work.name}${media === "video" ? ".mp4" : ".png"}`;
  const request = generationRequest(
    flags,
    media,
    media === "image" ? formatOfPath(file) : undefined,
  );
  bar.show(0, "Sending");
  const { id } = await client.json<{ id: string }>(request.path, {
    ...await requestInit(request),
    signal,
  });
  const job = await follow(work, id);
  bar.clear();
  if (job.status !== "completed") {
    throw new Error(job.error?.message ?? `Cannot generate: the job was ${job.status}`);
  }
  const outputs = job.outputs ?? [];
  const paths = outputPaths(file, outputs.length);
  for (const [index, output] of outputs.entries()) {
    const bytes = await (await client.request(output.url, { signal })).bytes();
    const path = paths[index]!;
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, bytes);
    console.log(path);
  }
  const what = outputs.length === 1 ? `1 ${media}` : `${outputs.length} ${media}s`;
  const seeds = outputs.map(({ seed }) => seed).join(", ");
  const seconds = (job.ended_at ?? 0) - (job.started_at ?? 0);
  return `${what} of ${job.size ?? "?"} in ${duration(seconds)}, ${
    outputs.length === 1 ? "seed" : "seeds"
  } ${seeds}`;
}

/** The job at its end. */
async function follow(
  { client, bar, screen, signal }: RemoteWork,
  id: string,
): Promise<Job> {
  try {
    for await (const { event, data } of client.events(id, signal)) {
      if (event === "preview") {
        bar.clear();
        await screen?.showFile(Uint8Array.fromBase64(data.b64_json));
      } else if (event === "progress") {
        const { progress, stage, step, total_steps: totalSteps, eta_s: etaSeconds } = data;
        const after = stage
          ? describeProgress({
            ...{ stage, step, totalSteps, fraction: progress / 100 },
            ...(etaSeconds === null ? {} : { etaSeconds }),
          })
          : "";
        bar.show(progress / 100, "Generating", after);
      } else if (event === "status") {
        const { status, place } = data as Job;
        if (status === "queued") bar.show(0, "Waiting", place === null ? "" : `place ${place}`);
        if (status !== "queued" && status !== "in_progress") return data;
      }
    }
  } catch (error) {
    if (signal.aborted) await client.cancel(id).catch(() => {});
    throw error;
  }
  return await client.json<Job>(`/v1/jobs/${id}`);
}

async function mediaOfServer(client: ServerClient): Promise<Media> {
  const { data } = await client.json<{ data: { task_type: TaskType }[] }>("/v1/models");
  return data[0] && outputOf(data[0].task_type) === "VIDEO" ? "video" : "image";
}
