/** Why jobs end before they are done, what their records say of it, and waits that a signal ends. */

import { ApiError, type ErrorStatus, ServiceError } from "../contract/errors.ts";
import { answerOf } from "../http/respond.ts";
import type { NewJob } from "./job.ts";
import type { JobChange, JobRecord } from "./job_store.ts";

/** Most UTF-16 units of an error that a record keeps. */
const MAX_MESSAGE_LENGTH = 4000;
/** The word for a failure that is not for clients. */
const INTERNAL_ERROR = "internal_error";

/** The reason of a job that its client gave up. */
export function cancelled(): DOMException {
  return new DOMException("The request was cancelled", "AbortError");
}

/** The reason of a job that a stopping server refuses or aborts. */
export function stopping(): ServiceError {
  const message = "Cannot take the request: the server is stopping";
  return new ServiceError("shutting_down", message, { retryAfter: 5 });
}

/** Whether it is the server's end that ended a job, as {@link stopping} says. */
export function isStopping(reason: unknown): boolean {
  return reason instanceof ServiceError && reason.failure === "shutting_down";
}

/** The end of a job that was not completed, for its record; what is not meant for clients is omitted. */
export function endOf(reason: unknown): JobChange {
  const endedAt = Date.now();
  if (reason instanceof DOMException && reason.name === "AbortError") {
    return { status: "cancelled", endedAt };
  }
  if (!(reason instanceof ServiceError || reason instanceof ApiError)) {
    const message = "Cannot finish the job: an internal error occurred";
    return { status: "failed", endedAt, error: { code: INTERNAL_ERROR, message } };
  }
  const code = isStopping(reason) ? "interrupted" : reason.code ?? "failed";
  const message = reason.message.slice(0, MAX_MESSAGE_LENGTH);
  const { status } = reason instanceof ApiError ? reason : answerOf(reason);
  return { status: "failed", endedAt, error: { code, message }, errorStatus: status };
}

/** What came of a job that another process ran. @throws what it failed with; an `AbortError` when it was cancelled or deleted */
export async function outcomeOf<T>(
  job: Pick<NewJob<T>, "id" | "kind" | "restore">,
  record: JobRecord | undefined,
): Promise<T> {
  if (!record || record.status === "cancelled") throw cancelled();
  if (record.status === "completed") {
    if (job.restore) return await job.restore(record);
    throw new TypeError(`Cannot restore the outcome of ${job.id}: a ${job.kind} has none`);
  }
  const { code, message } = record.error ?? { code: "failed", message: "Cannot finish the job" };
  if (code === INTERNAL_ERROR) {
    throw new Error(`Cannot finish ${job.id}: the log of the worker that ran it says why`);
  }
  const { errorStatus = 500 } = record;
  throw new ApiError(errorStatus as ErrorStatus, message, {
    code,
    ...(errorStatus === 503 ? { headers: { "retry-after": "5" } } : {}),
    ...(errorStatus === 500 ? { headers: { "x-should-retry": "false" } } : {}),
  });
}

/** Waits for something that does not heed a signal, or not at once; what becomes of it after the signal is dropped. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, work]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
