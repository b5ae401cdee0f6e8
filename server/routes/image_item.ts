/** A finished image in an answer. */

import { type ImageRequest, outputSeeds } from "../images/image_request.ts";
import type { ImageOutput } from "../images/image_job.ts";
import { Base64 } from "./base64_json.ts";

/** What an answer says of one image. */
interface ImageItem {
  /** The file in base64; null where a link was asked for. */
  b64_json: Base64 | null;
  /** Where the file is; null where it alone was asked for, or is not kept. */
  url: string | null;
  /** Makes the same image again. */
  seed: number;
}

/** Where an image can be had. */
interface ImagePlaces {
  /** Where clients reach this server; the link is relative when it is omitted. */
  readonly publicUrl?: string | undefined;
  /** A link to where the image is kept in a cloud. */
  readonly cloudLink?: string | null;
}

/**
 * The part of an answer that holds the image or leads to it.
 *
 * @param index its place among the images of the request
 */
export function imageItem(
  id: string,
  request: Pick<ImageRequest, "responseFormat" | "seeds" | "layers">,
  output: ImageOutput,
  index: number,
  { publicUrl = "", cloudLink = null }: ImagePlaces = {},
): ImageItem {
  const { responseFormat } = request;
  const seeds = outputSeeds(request);
  const variant = seeds.length > 1 ? `?variant=${index}` : "";
  const link = () => cloudLink ?? `${publicUrl}/v1/images/${id}/content${variant}`;
  return {
    b64_json: responseFormat === "url" ? null : new Base64(output.bytes),
    url: responseFormat === "b64_json" ? null : link(),
    seed: seeds[index]!,
  };
}
