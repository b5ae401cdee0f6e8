/** A file of a finished job as an answer. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { AppEnv, Services } from "../services.ts";
import type { StoredFile } from "../storage/result_storage.ts";

/** What is asked for of a finished job. */
interface AskedFile {
  /** Files of the job. */
  readonly files: readonly StoredFile[];
  /** Word for the results, such as `Video`. */
  readonly what: string;
  /** Which of them, from 0; the first when it is omitted. */
  readonly variant: string | undefined;
}

/**
 * Answers with one file of a job.
 *
 * @returns 200, 206, 304, or 307 to a file in a cloud
 * @throws {ApiError} 404 for a variant that there is not and a file that is gone, 416 for a range
 * beyond the file
 */
export async function serveResult(
  c: Context<AppEnv>,
  { files, what, variant }: AskedFile,
  { storage }: Services,
): Promise<Response> {
  const file = files[/^\d{1,4}$/.test(variant ?? "0") ? Number(variant ?? 0) : -1];
  if (!file || !storage) {
    throw notFound(`${what} variant ${variant?.slice(0, 40) ?? "None"} not found`);
  }
  const response = await storage.content(c.req.raw, file);
  if (!response) throw notFound(`${what} not found: its file was removed`);
  return response;
}

function notFound(message: string): ApiError {
  return new ApiError(404, message, { code: "not_found" });
}
