/** Failures to keep results or records. */

import { describeWriteError } from "../../generation/write_error.ts";
import { RecordsBusyError } from "../contract/errors.ts";
import { ServiceError } from "../service_error.ts";

/**
 * Why a result cannot be kept.
 *
 * @param cause what the file system or the database threw; goes to the log
 */
export function storageFailed(cause: unknown): ServiceError {
  if (cause instanceof RecordsBusyError) return recordsBusy(cause);
  const message = `Cannot keep the result on the server: ${describeWriteError(cause)}`;
  return new ServiceError("storage_failed", message, { cause });
}

/** Why a request cannot be answered while another program has the records locked. */
export function recordsBusy(cause: RecordsBusyError): ServiceError {
  return new ServiceError("records_busy", cause.message, { retryAfter: 5, cause });
}
