/** The images and videos that a request brings, as files: uploaded, linked, or written into the request itself. */

import { open, readFile } from "node:fs/promises";
import { countGifFrames } from "../../media/gif.ts";
import { BusyError } from "../../media/isolated/slots.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { nextTurn } from "../http/pace.ts";
import type { InputFolder } from "./input_folder.ts";
import type { UploadedFile } from "./multipart.ts";
import { fetchRemote, RemoteError, type RemotePolicy } from "../network/remote.ts";

/** What a request calls an image or video. */
export type Source = UploadedFile | { readonly field: string; readonly url: string };

/** An image or video on disk. */
export interface InputFile {
  readonly field: string;
  readonly path: string;
  readonly kind: "image" | "video";
}

/** Longest body of a linked file and of one inside a request, in bytes. */
const MAX_LINKED_BYTES: number = 20 * 2 ** 20;

/** First bytes of video containers: MP4 and QuickTime, Matroska and WebM, AVI, GIF, MPEG, Ogg, FLV. */
const VIDEO_START =
  /^(?:.{4}(?:ftyp|moov|mdat|wide|free|skip)|.E\xdf\xa3|RIFF.{4}AVI |GIF8|\0{2}[^\0][\xba\xb3]|G.{187}G|OggS|FLV)/s;
/** Brands of still images in the same container as MP4. */
const STILL_START = /^.{4}ftyp(?:avi[fs]|hei[cxms]|hev[cx]|mif1|msf1)/s;

/** First bytes of images that are read: PNG, JPEG, WebP, BMP. */
const IMAGE_START = /^(?:\x89PNG|\xff\xd8\xff|RIFF.{4}WEBP|BM)/s;

/** What the inputs of a request are fetched and read with. */
export interface InputSources {
  readonly folder: InputFolder;
  /** Whether addresses of private networks may be fetched. */
  readonly allowPrivateUrls: boolean;
  readonly signal?: AbortSignal;
}

interface ReferenceOptions extends InputSources {
  /** Whether videos are wanted too; a GIF of several frames counts as one then. */
  readonly takesVideo: boolean;
}

/** @throws {ApiError} 400 for a source that may not or cannot be used; 429 when too many wait */
export async function resolveReferences(
  sources: readonly Source[],
  options: ReferenceOptions,
): Promise<InputFile[]> {
  const files: InputFile[] = [];
  for (const source of sources) {
    const path = "path" in source ? source.path : await fetchSource(source, options);
    const { field } = source;
    const kind = options.takesVideo ? await kindOf(path, source) : "image";
    if (kind === undefined && VIDEO_FIELDS.includes(field)) {
      throw badSource(field, "it is of no known format; send MP4, MOV, WebM, MKV, AVI or GIF");
    }
    files.push({ field, path, kind: kind ?? "image" });
  }
  return files;
}

/** What a field brings: its uploads, then its addresses; empty ones say nothing. */
export function sourcesOf(
  field: string,
  urls: string | readonly string[] | null | undefined,
  uploads: readonly UploadedFile[],
): Source[] {
  return [
    ...uploads.filter((upload) => upload.field === field),
    ...[urls ?? []].flat().flatMap((url) => url === "" ? [] : [{ field, url }]),
  ];
}

/** @throws {ApiError} 400 for more than one */
export function oneSource(...of: Parameters<typeof sourcesOf>): Source | undefined {
  const [first, ...others] = sourcesOf(...of);
  if (others.length === 0) return first;
  const [field] = of;
  throw badRequest(
    `Cannot use ${others.length + 1} values of '${field}' and its other names: a request takes one`,
    field,
  );
}

const VIDEO_FIELDS = ["video", "video_reference", "video_url"];

const OWN_SOURCES: Readonly<Record<string, string>> = {
  mask: "mask",
  control: "control picture",
  ...Object.fromEntries(VIDEO_FIELDS.map((field) => [field, "video"])),
};

/** A source that cannot be used, in the words of the reference where it has such a field. */
export function badSource(field: string, why: string): Error {
  const what = OWN_SOURCES[field] ?? "image source";
  return badRequest(`Failed to process ${what}: ${why}`, field, "invalid_source");
}

/** The answer to a request whose files would have to wait too long. */
export function tooBusy(what: string, { message }: BusyError): ApiError {
  return new ApiError(
    429,
    `Cannot read the ${what} of the request: ${message}; try again in 5 s`,
    { code: "busy", headers: { "retry-after": "5" } },
  );
}

async function fetchSource(
  { field, url: sent }: { field: string; url: string },
  { folder, takesVideo, allowPrivateUrls, signal }: ReferenceOptions,
): Promise<string> {
  const url = sent.trim();
  const policy: RemotePolicy = {
    allowPrivate: allowPrivateUrls,
    maxBytes: MAX_LINKED_BYTES,
    media: takesVideo ? ["image", "video"] : ["image"],
  };
  try {
    const isData = /^data:/i.test(url);
    const { bytes, name } = isData
      ? await readDataUrl(url, policy)
      : await fetchRemote(url, policy, signal);
    return await folder.write(name, bytes);
  } catch (error) {
    if (error instanceof RemoteError) throw badSource(field, error.message);
    if (error instanceof BusyError) throw tooBusy("links", error);
    throw error;
  }
}

/** The bytes of a data address, whatever it calls them; base64 of both alphabets, percent-encoded or not. */
async function readDataUrl(
  url: string,
  { maxBytes }: RemotePolicy,
): Promise<{ bytes: Uint8Array; name: string }> {
  const [head] = /^data:[^,]{0,1000};base64,/i.exec(url) ?? [];
  if (head === undefined) {
    throw new RemoteError("a data URL must be like data:image/png;base64,…");
  }
  // Line breaks and percent signs make it longer than its bytes need.
  const text = url.slice(head.length);
  const most = text.includes("%") ? 3 * maxBytes : maxBytes;
  if (text.length * 3 / 4 > most + 3) throw new RemoteError(`it is longer than ${maxBytes} bytes`);
  await nextTurn();
  let bytes: Uint8Array;
  try {
    const plain = text.includes("%") ? decodeURIComponent(text) : text;
    bytes = Uint8Array.fromBase64(plain.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    throw new RemoteError("its base64 is not valid");
  }
  if (bytes.length > maxBytes) throw new RemoteError(`it is longer than ${maxBytes} bytes`);
  return { bytes, name: "data" };
}

/** Whether a client calls it a video. */
function saysVideo(source: Source): boolean {
  return "path" in source
    ? /^video\//i.test(source.contentType)
    : /^\s*data:video\//i.test(source.url);
}

/** What a file is by its first bytes; one that is damaged beyond knowing is what its client says, or unknown. */
async function kindOf(path: string, source: Source): Promise<InputFile["kind"] | undefined> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(256), 0, 256, 0);
    const start = String.fromCharCode(...buffer.subarray(0, bytesRead));
    if (IMAGE_START.test(start)) return "image";
    if (start.startsWith("GIF8") && !VIDEO_FIELDS.includes(source.field)) {
      return countGifFrames(await readFile(path)) > 1 ? "video" : "image";
    }
    if (VIDEO_START.test(start)) return STILL_START.test(start) ? "image" : "video";
    return saysVideo(source) ? "video" : undefined;
  } finally {
    await file.close();
  }
}
