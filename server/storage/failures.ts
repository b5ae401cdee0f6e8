/** What failures of storage are for the client. */

import { describeWriteError } from "../../generation/write_error.ts";
import { RecordsBusyError, ServiceError } from "../contract/errors.ts";

/** Why a result cannot be kept; `cause` goes to the log. */
export function storageFailed(cause: unknown): ServiceError {
  if (cause instanceof RecordsBusyError) return recordsBusy(cause);
  const message = `Cannot keep the result on the server: ${describeWriteError(cause)}`;
  return new ServiceError("storage_failed", message, { cause });
}

/** Why a request cannot be answered while another program has the records locked. */
export function recordsBusy(cause: RecordsBusyError): ServiceError {
  return new ServiceError("records_busy", cause.message, { retryAfter: 5, cause });
}
