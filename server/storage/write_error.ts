/**
 * Answers to requests whose results or records cannot be kept.
 *
 * @module
 */

import { describeWriteError } from "../../generation/write_error.ts";
import { ApiError } from "../contract/errors.ts";
import { RecordsBusyError } from "../jobs/job_store.ts";

/**
 * The answer to a request whose result cannot be kept, status 500; 503 where it may be soon.
 *
 * @param cause what the file system or the database threw; goes to the log
 * @returns the error, to be thrown
 */
export function storageFailed(cause: unknown): ApiError {
  if (cause instanceof RecordsBusyError) return recordsBusy(cause);
  const message = `Cannot keep the result on the server: ${describeWriteError(cause)}`;
  return new ApiError(500, message, { code: "storage_failed", cause });
}

/**
 * The answer to a request while another program has the records locked, status 503.
 *
 * @param cause says for how long
 * @returns the error, to be thrown
 */
export function recordsBusy(cause: RecordsBusyError): ApiError {
  return new ApiError(503, cause.message, {
    code: "records_busy",
    headers: { "retry-after": "5" },
    cause,
  });
}
