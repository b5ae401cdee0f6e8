/** The spans of a job: how long it waited, and what it spent its time on, in whichever process. */

import { endOf } from "../jobs/job_end.ts";
import { StageClock } from "../jobs/stage_clock.ts";
import type { Tracing } from "./tracing.ts";

/** A job to be traced. */
export interface TracedJob {
  /** Id of the job. */
  readonly id: string;
  /** What the job makes. */
  readonly kind: string;
  /** Name of its model. */
  readonly model: string;
  /** When it was queued, in Unix milliseconds. */
  readonly queuedAt: number;
  /** Leads to the request that it came with; nothing where that was not traced. */
  readonly traceparent: string | undefined;
}

/**
 * Does the work of a job within its spans.
 *
 * @param tracing makes spans; nothing is made where it is undefined
 * @returns what `work` gives
 */
export async function tracedJob<T>(
  tracing: Tracing | undefined,
  { id, kind, model, queuedAt, traceparent: parent }: TracedJob,
  work: (stages: StageClock) => Promise<T>,
): Promise<T> {
  if (!tracing) return await work(new StageClock());
  const attributes = { "denoise.job.id": id, "denoise.job.kind": kind, "denoise.model": model };
  tracing.begin("queued", { parent, at: queuedAt, attributes }).end();
  const span = tracing.begin("generate", { parent, attributes });
  const stages = new StageClock((stage, from, to) =>
    tracing.begin(stage, { parent: span.traceparent, at: from }).end({ at: to })
  );
  try {
    const outcome = await span.run(() => work(stages));
    stages.enter();
    span.end();
    return outcome;
  } catch (error) {
    stages.enter();
    const { status, error: reason } = endOf(error);
    span.end({ failure: reason?.code ?? status ?? "failed" });
    throw error;
  }
}
