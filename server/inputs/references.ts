/** The images and videos that a request brings, as files: uploaded, linked, or written into the request itself. */

import { copyFile, open, readFile, stat } from "node:fs/promises";
import { countGifFrames } from "../../media/gif.ts";
import { BusyError } from "../../media/isolated/slots.ts";
import { ApiError } from "../contract/errors.ts";
import { nextTurn } from "../http/body.ts";
import type { InputFolder } from "./input_folder.ts";
import { AUDIO_FIELD, badSource, type Source, VIDEO_FIELDS } from "./sources.ts";
import { fetchRemote, RemoteError, type RemotePolicy } from "../network/remote.ts";
import type { InputImage } from "../../engine/types.ts";
import { checkPainted, givenImage } from "../../generation/size.ts";
import type { InputReader } from "../../generation/prepare.ts";
import type { ImageInfo } from "../../media/decode.ts";
import { ImageError } from "../../media/image.ts";
import {
  decodeOwnImage,
  fitForeignImage,
  inspectForeignImage,
  maskForeignImage,
} from "../../media/isolated/images.ts";

/** An image, video or sound on disk. */
export interface InputFile {
  readonly field: string;
  readonly path: string;
  readonly kind: "image" | "video" | "audio";
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
/** Content types by first bytes; what has none of these is kept as bytes. */
const CONTENT_TYPES: readonly (readonly [RegExp, string])[] = [
  [/^\x89PNG/, "image/png"],
  [/^\xff\xd8\xff/, "image/jpeg"],
  [/^RIFF.{4}WEBP/s, "image/webp"],
  [/^BM/, "image/bmp"],
  [/^GIF8/, "image/gif"],
  [/^.{4}ftypqt/s, "video/quicktime"],
  [/^.{4}(?:ftyp|moov|mdat|wide|free|skip)/s, "video/mp4"],
  [/^.E\xdf\xa3/s, "video/webm"],
  [/^RIFF.{4}AVI /s, "video/x-msvideo"],
  [/^RIFF.{4}WAVE/s, "audio/wav"],
  [/^(?:ID3|\xff[\xf2-\xf3\xfa-\xfb])/, "audio/mpeg"],
  [/^fLaC/, "audio/flac"],
  [/^OggS/, "audio/ogg"],
];

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
    const start = await startOf(path);
    const kind = field === AUDIO_FIELD
      ? "audio"
      : options.takesVideo
      ? await kindOf(path, start, source)
      : "image";
    if (kind === undefined && VIDEO_FIELDS.includes(field)) {
      throw badSource(field, "it is of no known format; send MP4, MOV, WebM, MKV, AVI or GIF");
    }
    files.push({ field, path, kind: kind ?? "image" });
    const [, contentType = "application/octet-stream"] = CONTENT_TYPES.find(([pattern]) =>
      pattern.test(start)
    ) ?? [];
    options.folder.given.push({ field, path, contentType });
  }
  return files;
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
    media: field === AUDIO_FIELD ? ["audio", "video"] : takesVideo ? ["image", "video"] : ["image"],
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
async function kindOf(
  path: string,
  start: string,
  source: Source,
): Promise<InputFile["kind"] | undefined> {
  if (IMAGE_START.test(start)) return "image";
  if (start.startsWith("GIF8") && !VIDEO_FIELDS.includes(source.field)) {
    return countGifFrames(await readFile(path)) > 1 ? "video" : "image";
  }
  if (VIDEO_START.test(start)) return STILL_START.test(start) ? "image" : "video";
  return saysVideo(source) ? "video" : undefined;
}

/** The first bytes of a file, as characters. */
async function startOf(path: string): Promise<string> {
  await using file = await open(path);
  const { buffer, bytesRead } = await file.read(new Uint8Array(256), 0, 256, 0);
  return String.fromCharCode(...buffer.subarray(0, bytesRead));
}

const MAX_IMAGE_BYTES = 64 * 2 ** 20;

/** An image whose container has been read: its format, and its size upright. */
export interface OpenImage extends InputFile, ImageInfo {}

/** How a request's images are read: into PNG files beside the originals, so that a job can begin long after it. */
export interface RequestImages {
  readonly source: Source | InputFile;
  readonly open: OpenImage;
  readonly kept: string;
}

export function imageReader(sources: InputSources): InputReader<RequestImages> {
  const { folder, signal } = sources;
  return {
    open: async (source) => {
      const [file] = "kind" in source
        ? [source]
        : await resolveReferences([source], { ...sources, takesVideo: false });
      return await openImage(file!, signal);
    },
    fit: async (image, how) => {
      const { bytes, hasHoles } = await explained(
        image,
        fitForeignImage(image, image, how, { signal }),
      );
      return { image: await folder.write(`${image.field}.png`, bytes), hasHoles };
    },
    mask: async (image, how, way) => {
      const { bytes, share } = await explained(
        image,
        maskForeignImage(image, image, how, { way, signal }),
      );
      checkPainted(share);
      return folder.write(`${image.field}-mask.png`, bytes);
    },
  };
}

/** @throws {ApiError} 400 when it is no image, damaged or too large; 413 when its file is too long; 429 when too many wait */
export async function openImage(file: InputFile, signal?: AbortSignal): Promise<OpenImage> {
  const { size } = await stat(file.path);
  if (size > MAX_IMAGE_BYTES) {
    throw new ApiError(
      413,
      `Cannot use the image: it has ${size} bytes, and at most ${MAX_IMAGE_BYTES} are read`,
      { code: "body_too_large", param: file.field },
    );
  }
  return { ...file, ...await explained(file, inspectForeignImage(file, { signal })) };
}

/** Reads a file that a request brought. */
export function readGiven(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return readFile(path) as Promise<Uint8Array<ArrayBuffer>>;
}

/** Copies a file that a request brought. */
export function copyGiven(path: string, to: string): Promise<void> {
  return copyFile(path, to);
}

/** Reads an image that {@link imageReader} kept. */
export async function readImage(path: string, signal?: AbortSignal): Promise<InputImage> {
  return givenImage(await decodeOwnImage({ path }, { signal }));
}

/** A damaged image is its sender's mistake. @throws {ApiError} 400 for it; 429 when too many wait */
export async function explained<T>(
  { field }: Pick<InputFile, "field">,
  reading: Promise<T>,
): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ImageError) throw badSource(field, error.message);
    if (error instanceof BusyError) throw tooBusy("images", error);
    throw error;
  }
}
