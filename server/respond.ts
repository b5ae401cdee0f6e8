/**
 * From anything that was thrown to an answer that may be read by whoever asked.
 *
 * @module
 */

import { ApiError, internalError } from "./contract/errors.ts";

/**
 * The answer to a failure. What is not meant for clients goes to the log instead.
 *
 * @param error anything
 * @param requestId names the request in answer and log
 * @param log takes what clients may not see
 * @returns the error to answer with
 */
export function toApiError(
  error: unknown,
  requestId: string,
  log: (line: string) => void,
): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof DOMException && error.name === "AbortError") {
    return new ApiError(499, "Cannot finish the request: it was cancelled", { code: "cancelled" });
  }
  log(`${requestId} failed: ${error instanceof Error ? error.stack ?? error.message : error}`);
  return internalError(requestId);
}
