/**
 * A finished picture in an answer.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { ImageRequest } from "../contract/image_generation.ts";
import type { ImageOutput } from "../images/image_job.ts";

/**
 * The part of an answer that holds the picture or leads to it.
 *
 * @param id of the job
 * @param request says which of the two
 * @param output the picture
 * @param index its place among the pictures of the request
 * @returns both fields, one of them null
 */
export function imageItem(
  id: string,
  request: Pick<ImageRequest, "responseFormat" | "seeds">,
  output: ImageOutput,
  index: number,
): { b64_json: string | null; url: string | null } {
  if (request.responseFormat === "b64_json") {
    return { b64_json: Buffer.from(output.bytes).toString("base64"), url: null };
  }
  const variant = request.seeds.length > 1 ? `?variant=${index}` : "";
  return { b64_json: null, url: output.file?.url ?? `/v1/images/${id}/content${variant}` };
}
