/** A finished image in an answer, and answers with megabytes of base64. */

import type { ImageOutcome, ImageOutput } from "../images/image_job.ts";
import { type ImageRequest, outputSeeds } from "../images/image_request.ts";
import { Buffer } from "node:buffer";
import type { Context } from "hono";
import { headerOfNames } from "../contract/fields.ts";
import type { CutPrompt, Engine } from "../../engine/types.ts";
import type { AppEnv, Services } from "../services.ts";
import { drawnSize } from "../../engine/result_size.ts";
import type { Size } from "../../generation/size.ts";

/** What an answer says of one image. */
interface ImageItem {
  /** The file in base64; null where a link was asked for. */
  b64_json: Base64 | null;
  /** Where the file is; null where it alone was asked for, or is not kept. */
  url: string | null;
  /** Makes the same image again. */
  seed: number;
}

interface ImagePlaces {
  /** Where clients reach this server; the link is relative when it is omitted. */
  readonly publicUrl?: string | undefined;
  /** A link to where the image is kept in a cloud. */
  readonly cloudLink?: string | null;
}

/** The part of an answer that holds the image, or leads to it. */
export function imageItem(
  id: string,
  request: Pick<ImageRequest, "responseFormat" | "seeds" | "layers">,
  { index, bytes }: ImageOutput,
  { publicUrl = "", cloudLink = null }: ImagePlaces = {},
): ImageItem {
  const { responseFormat } = request;
  const seeds = outputSeeds(request);
  const variant = seeds.length > 1 ? `?variant=${index}` : "";
  const link = () => cloudLink ?? `${publicUrl}/v1/images/${id}/content${variant}`;
  return {
    b64_json: responseFormat === "url" ? null : new Base64(bytes),
    url: responseFormat === "b64_json" ? null : link(),
    seed: seeds[index]!,
  };
}

/** Bytes that stand in JSON as a string in base64. */
export class Base64 {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  toString(): string {
    const { buffer, byteOffset, byteLength } = this.bytes;
    return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
  }
}

/** Bytes that are turned at once; a multiple of three, so that the parts join. */
const PART_BYTES = 3 * 2 ** 18;

interface Base64Json {
  /** Made while it is read. */
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly headers: Record<string, string>;
}

/** JSON of a value with {@link Base64} anywhere in it. */
export function base64Json(value: unknown): Base64Json {
  const files: Base64[] = [];
  const mark = `base64 ${crypto.randomUUID()}`;
  const pieces = JSON.stringify(value, (_, each: unknown) => {
    if (!(each instanceof Base64)) return each;
    files.push(each);
    return mark;
  }).split(mark).map((piece) => new TextEncoder().encode(piece));
  const lengths = [
    ...pieces.map(({ length }) => length),
    ...files.map(({ bytes }) => 4 * Math.ceil(bytes.length / 3)),
  ];
  return {
    body: ReadableStream.from(partsOf(pieces, files)),
    headers: {
      "content-type": "application/json",
      "content-length": String(lengths.reduce((sum, length) => sum + length, 0)),
    },
  };
}

async function* partsOf(
  pieces: readonly Uint8Array<ArrayBuffer>[],
  files: readonly Base64[],
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (const [index, piece] of pieces.entries()) {
    yield piece;
    const bytes = files[index]?.bytes ?? new Uint8Array(0);
    for (let at = 0; at < bytes.length; at += PART_BYTES) {
      yield new TextEncoder().encode(`${new Base64(bytes.subarray(at, at + PART_BYTES))}`);
      // Whoever else waits comes between.
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }
}

/** Tells the client and the log which fields did nothing. */
export function nameIgnored(
  c: Context<AppEnv>,
  ignored: readonly string[],
  services: Services,
): void {
  if (ignored.length === 0) return;
  const names = headerOfNames(ignored);
  c.header("x-ignored-fields", names);
  const requestId = c.get("requestId");
  services.log(`${requestId} has fields without effect: ${names}`, { request_id: requestId });
}

/** Tells the client which prompts were read in part. */
export function nameCuts(c: Context<AppEnv>, { cutPrompts }: ImageOutcome): void {
  if (cutPrompts) c.header("x-cut-prompts", headerOfCuts(cutPrompts));
}

/** Such as `prompt; tokens=640; read=512`. */
function headerOfCuts(cuts: readonly CutPrompt[]): string {
  return cuts.map(({ prompt, tokens, read }) => `${prompt}; tokens=${tokens}; read=${read}`)
    .join(", ");
}

/** Tells the client at which size the model draws, where the result is enlarged. */
export function nameDrawnSize(
  c: Context<AppEnv>,
  size: Size,
  { info }: Pick<Engine, "info">,
): void {
  const drawnAt = drawnSize(size, info);
  if (drawnAt) c.header("x-drawn-at", `${drawnAt.width}x${drawnAt.height}`);
}
