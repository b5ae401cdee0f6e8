/** Images decoded and encoded in processes of their own, so that a server outlives whatever a file does to its decoder. */

import type { ImageInfo } from "../decode.ts";
import { type EncodedImage, encodeImage, type EncodeOptions } from "../encode.ts";
import type { Fit } from "../fit.ts";
import { ImageError, type PixelImage } from "../image.ts";
import type { MaskWay } from "../mask.ts";
import {
  ImageProcess,
  type ImageSource,
  ProcessEndedError,
  TaskError,
  TimeLimitError,
} from "./image_process.ts";
import type { ImageResults, ImageTaskOf } from "./image_program.ts";
import { Slots } from "./slots.ts";

/** 8192 x 4096, or 5792 x 5792: what a foreign image may have unless the caller says otherwise. */
const FOREIGN_MAX_PIXELS: number = 2 ** 25;

/** How long a foreign image may take, in milliseconds. */
const FOREIGN_MS = 30_000;

interface ForeignImageOptions {
  readonly maxPixels?: number;
  /** Milliseconds that decoding may take, the wait for its turn not counted. */
  readonly timeoutMs?: number;
  /** Ends it, also in the middle of its work. */
  readonly signal?: AbortSignal | undefined;
}

/** How long our own may take, in milliseconds: long enough for the largest on a slow machine. */
const OWN_MS = 300_000;

/** Most foreign images that wait, half of them one client's. */
const MAX_WAITING = 512;

/** A process whose image had more pixels than this is ended after it, for its memory. */
const KEEP_BELOW_PIXELS = 2 ** 22;

/** How long a process without a task is kept, in milliseconds. */
const IDLE_MS = 30_000;

/** Images with fewer pixels are encoded where they are: starting a process takes longer. */
const SMALL_PIXELS = 2 ** 16;

class ImageProcesses {
  readonly #slots: Slots;
  readonly #idle: { process: ImageProcess; timer: ReturnType<typeof setTimeout> }[] = [];

  constructor(slots: Slots) {
    this.#slots = slots;
  }

  /** Does a task in a process that is free, or a new one. */
  perform<Kind extends keyof ImageResults>(
    task: ImageTaskOf<Kind>,
    source: ImageSource,
    options: { pixels: number; timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<{ result: ImageResults[Kind]; bytes: Uint8Array<ArrayBuffer> }> {
    const { pixels, signal } = options;
    return this.#slots.run(async () => {
      const process = this.#take();
      try {
        return await process.perform(task, source, options);
      } finally {
        this.#giveBack(process, pixels);
      }
    }, { weight: pixels, signal });
  }

  #take(): ImageProcess {
    for (let free = this.#idle.pop(); free; free = this.#idle.pop()) {
      clearTimeout(free.timer);
      if (free.process.isUsable) return free.process;
    }
    return new ImageProcess();
  }

  #giveBack(process: ImageProcess, pixels: number): void {
    if (!process.isUsable || pixels > KEEP_BELOW_PIXELS) return process.end();
    const timer = setTimeout(() => {
      this.#idle.splice(this.#idle.findIndex((each) => each.process === process), 1);
      process.end();
    }, IDLE_MS);
    Deno.unrefTimer(timer);
    this.#idle.push({ process, timer });
  }
}

/** Two at once, or one of the largest alone: that is as much memory. */
const foreign = new ImageProcesses(
  new Slots({ count: 2, weight: FOREIGN_MAX_PIXELS, waiting: MAX_WAITING }),
);

/** Jobs do not stand in line behind uploads. */
const own = new ImageProcesses(new Slots({ count: 2 }));

export async function inspectForeignImage(
  source: ImageSource,
  options?: ForeignImageOptions,
): Promise<ImageInfo> {
  return (await performForeign({ kind: "inspect" }, source, 0, options)).result;
}

export async function readForeignText(
  source: ImageSource,
  options?: ForeignImageOptions,
): Promise<Record<string, string>> {
  return (await performForeign({ kind: "text" }, source, 0, options)).result;
}

/** Decodes a foreign image and brings it to a size: a PNG, and whether nothing was seen of some pixels. */
export async function fitForeignImage(
  source: ImageSource,
  info: ImageInfo,
  how: Fit,
  options?: ForeignImageOptions,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; hasHoles: boolean }> {
  const sides = "cover" in how ? how.cover : "contain" in how ? how.contain : how.scaled;
  const pixels = Math.max(info.width * info.height, sides.width * sides.height);
  const { bytes, result } = await performForeign({ kind: "fit", how }, source, pixels, options);
  return { bytes, ...result };
}

/** Decodes a foreign image, makes a mask of it, and brings that to a size: a PNG, and how much of it is painted. */
export async function maskForeignImage(
  source: ImageSource,
  info: ImageInfo,
  how: Fit,
  { way, ...options }: ForeignImageOptions & { readonly way?: MaskWay | undefined } = {},
): Promise<{ bytes: Uint8Array<ArrayBuffer>; share: number }> {
  const task = { kind: "mask", how, way } as const;
  const pixels = info.width * info.height;
  const { bytes, result } = await performForeign(task, source, pixels, options);
  return { bytes, ...result };
}

export async function decodeOwnImage(
  source: ImageSource,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<PixelImage> {
  const limits = { pixels: 0, timeoutMs: OWN_MS, signal };
  const work = own.perform({ kind: "decode" }, source, limits);
  const { result, bytes } = await work.catch((error) => {
    throw error instanceof TaskError ? errorOf(error) : error;
  });
  return { ...result, data: bytes } as PixelImage;
}

/** Encodes an image that we made: here if it is small, or if no process can be had, so that no result is lost. */
export async function encodeOwnImage(
  image: PixelImage,
  options: EncodeOptions,
): Promise<EncodedImage> {
  const { data, ...rest } = image;
  const pixels = image.width * image.height;
  if (pixels <= SMALL_PIXELS) return await encodeImage(image, options);
  const task = { kind: "encode", image: rest, options } as const;
  try {
    const { result, bytes } = await own.perform(task, data, { pixels, timeoutMs: OWN_MS });
    return { ...result, bytes };
  } catch (error) {
    if (error instanceof TaskError) throw errorOf(error);
    return await encodeImage(image, options);
  }
}

/** Does a task with a foreign image; what goes wrong is the fault of its file. */
async function performForeign<Kind extends keyof ImageResults>(
  task: ImageTaskOf<Kind>,
  source: ImageSource,
  pixels: number,
  { maxPixels = FOREIGN_MAX_PIXELS, timeoutMs = FOREIGN_MS, signal }: ForeignImageOptions = {},
): Promise<{ result: ImageResults[Kind]; bytes: Uint8Array<ArrayBuffer> }> {
  try {
    const bounded: ImageTaskOf<Kind> = Object.assign({ maxPixels }, task);
    return await foreign.perform(bounded, source, { pixels, timeoutMs, signal });
  } catch (cause) {
    const why = cause instanceof TaskError
      ? `decoding it failed (${cause.message})`
      : cause instanceof TimeLimitError
      ? `${cause.message}; send a smaller one`
      : cause instanceof ProcessEndedError
      ? "decoding it takes more memory than it may; send a smaller one"
      : undefined;
    if (why === undefined) throw cause;
    const isTold = cause instanceof TaskError && cause.name === "ImageError";
    throw isTold ? errorOf(cause) : new ImageError(`Cannot read image: ${why}`, { cause });
  }
}

/** The error that the same work throws here. */
function errorOf({ name, message }: TaskError): Error {
  switch (name) {
    case "ImageError":
      return new ImageError(message);
    case "RangeError":
      return new RangeError(message);
    case "TypeError":
      return new TypeError(message);
    default:
      return new Error(message);
  }
}
