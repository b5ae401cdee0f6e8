/** From anything that was thrown to an answer that may be read by the client. */

import { ModelFilesError } from "../../engine/model_files_error.ts";
import type { Log } from "../log.ts";
import {
  ApiError,
  type ErrorStatus,
  internalError,
  modelFilesGone,
  RecordsBusyError,
  ServiceError,
  type ServiceFailure,
} from "../contract/errors.ts";
import { recordsBusy } from "../storage/failures.ts";

/** Status with which each failure of the service is answered. */
const STATUS: Readonly<Record<ServiceFailure, ErrorStatus>> = {
  device_lost: 503,
  enhancer_failed: 502,
  enhancer_timed_out: 504,
  model_failed: 503,
  model_loading: 503,
  queue_full: 429,
  records_busy: 503,
  refused: 400,
  shutting_down: 503,
  storage_failed: 500,
};

/** The answer to a failure. What is not meant for clients goes to the log instead. */
export function toApiError(
  error: unknown,
  requestId: string,
  log: Log,
): ApiError {
  if (error instanceof RecordsBusyError) return toApiError(recordsBusy(error), requestId, log);
  if (error instanceof ModelFilesError) return toApiError(modelFilesGone(error), requestId, log);
  if (error instanceof ServiceError) return toApiError(answerOf(error), requestId, log);
  if (error instanceof ApiError) {
    // The cause of a failure that was foreseen: its place in the code tells nothing.
    const { cause } = error;
    if (cause !== undefined) {
      const why = cause instanceof Error ? cause.message : cause;
      log(`${requestId} failed: ${why}`, { level: "error", request_id: requestId });
    }
    return error;
  }
  if (error instanceof DOMException && error.name === "AbortError") {
    return new ApiError(499, "Cannot finish the request: it was cancelled", { code: "cancelled" });
  }
  const { sentence, stack } = describe(error);
  log(`${requestId} failed: ${sentence}`, {
    level: "error",
    request_id: requestId,
    ...(stack === undefined ? {} : { stack }),
  });
  return internalError(requestId);
}

export function answerOf({ failure, code, message, retryAfter, cause }: ServiceError): ApiError {
  return new ApiError(STATUS[failure], message, {
    code,
    ...(retryAfter === undefined ? {} : { headers: { "retry-after": String(retryAfter) } }),
    ...(cause === undefined ? {} : { cause }),
  });
}

/** A sentence of ours says it all; of anything else the stack is needed to find the defect. */
function describe(error: unknown): { sentence: string; stack?: string | undefined } {
  if (!(error instanceof Error)) return { sentence: String(error) };
  const isOurs = error.message.startsWith("Cannot ");
  return isOurs ? { sentence: error.message } : { sentence: String(error), stack: error.stack };
}
