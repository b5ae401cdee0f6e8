/** What clients of WebUI's routes are told of their work: there, one thing is done at a time, and has no name. */

import type { JobOutput, JobProgress, Queue } from "../jobs/job.ts";
import { Base64 } from "../routes/image_item.ts";

interface Current {
  readonly id: string;
  readonly client: string;
  readonly startedAt: Date;
  readonly count: number;
  /** Images of each result. */
  readonly layers: number;
  /** Outputs that are finished. */
  readonly outputs: JobOutput[];
  isInterrupted: boolean;
  progress?: JobProgress;
  /** The latest preview. */
  preview?: Uint8Array;
}

/** The running job as Stable Diffusion WebUI's clients see it. */
export class CurrentJobs {
  readonly #queue: Queue;
  readonly #jobs = new Map<string, Current>();

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Watches a job that was queued, until `end()`. */
  follow(
    id: string,
    client: string,
    count: number,
    layers = 1,
  ): { job: Current; end: () => void } {
    const job: Current = {
      id,
      client,
      count,
      layers,
      startedAt: new Date(),
      outputs: [],
      isInterrupted: false,
    };
    this.#jobs.set(id, job);
    const stop = this.#queue.watch(id, (event) => {
      if (event.type === "progress") job.progress = event;
      if (event.type === "preview") job.preview = event.bytes;
      if (event.type === "output") job.outputs.push(event);
    });
    return {
      job,
      end: () => {
        stop();
        this.#jobs.delete(id);
      },
    };
  }

  /** Ends the client's job that runs, or where none does the one that waits the longest. */
  async interrupt(client: string): Promise<void> {
    const job = this.#of(client);
    if (!job) return;
    job.isInterrupted = true;
    await this.#queue.cancel(job.id);
  }

  /** How far a client's work is, for `GET /sdapi/v1/progress`: JSON with {@link Base64} in it. */
  progress(client: string, withImage: boolean): Record<string, unknown> {
    const job = this.#of(client);
    const { fraction = 0, etaSeconds = 0, step = 0, totalSteps = 0 } = job?.progress ?? {};
    const perImage = job ? Math.floor(totalSteps / job.count) : 0;
    return {
      progress: job ? Math.max(fraction, 0.01) : 0,
      eta_relative: etaSeconds,
      state: {
        skipped: false,
        interrupted: job?.isInterrupted ?? false,
        stopping_generation: job?.isInterrupted ?? false,
        job: job?.id ?? "",
        job_count: job?.count ?? 0,
        job_timestamp: timestamp(job?.startedAt ?? new Date(0)),
        job_no: job ? Math.floor(job.outputs.length / job.layers) : 0,
        sampling_step: perImage > 0 ? step % perImage : 0,
        sampling_steps: perImage,
      },
      current_image: withImage && job?.preview ? new Base64(job.preview) : null,
      textinfo: job && !job.progress ? "Waiting..." : null,
    };
  }

  #of(client: string): Current | undefined {
    const own = [...this.#jobs.values()].filter((job) => job.client === client);
    const { running } = this.#queue;
    return own.find(({ id }) => running.includes(id)) ?? own[0];
  }
}

/** A time as WebUI writes it, such as `20260131120000`. */
export function timestamp(date: Date): string {
  return date.toISOString().replace(/\D/g, "").slice(0, 14);
}
