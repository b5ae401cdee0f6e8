/**
 * Why jobs end before they are done, and what their records say of it.
 *
 * @module
 */

import { ApiError } from "../contract/errors.ts";
import { ServiceError } from "../service_error.ts";
import type { JobChange } from "./job_store.ts";

/** Most UTF-16 units of an error that a record keeps. */
const MAX_MESSAGE_LENGTH = 4000;

/**
 * The reason of a job that its client gave up.
 *
 * @returns the error, to be thrown
 */
export function cancelled(): DOMException {
  return new DOMException("The request was cancelled", "AbortError");
}

/**
 * The reason of a job that a stopping server refuses or aborts.
 *
 * @returns the error, to be thrown
 */
export function stopping(): ServiceError {
  const message = "Cannot take the request: the server is stopping";
  return new ServiceError("shutting_down", message, { retryAfter: 5 });
}

/**
 * Whether it is the server's end that ended a job.
 *
 * @param reason what the job ended with
 * @returns true for {@link stopping}
 */
export function isStopping(reason: unknown): boolean {
  return reason instanceof ServiceError && reason.failure === "shutting_down";
}

/**
 * The end of a job that was not completed, for its record.
 *
 * @param reason what it ended with; what is not meant for clients is left out
 * @returns status, time, and the error of a job that failed
 */
export function endOf(reason: unknown): JobChange {
  const endedAt = Date.now();
  if (reason instanceof DOMException && reason.name === "AbortError") {
    return { status: "cancelled", endedAt };
  }
  if (!(reason instanceof ServiceError || reason instanceof ApiError)) {
    const message = "Cannot finish the job: an internal error occurred";
    return { status: "failed", endedAt, error: { code: "internal_error", message } };
  }
  const code = isStopping(reason) ? "interrupted" : reason.code ?? "failed";
  const message = reason.message.slice(0, MAX_MESSAGE_LENGTH);
  return { status: "failed", endedAt, error: { code, message } };
}
