/** Decodes and encodes images as a process: tasks come on standard input, answers go to standard output. */

import { decodeImage, type DecodeOptions, type ImageInfo, inspectImage } from "../decode.ts";
import { type EncodedImage, encodeImage, type EncodeOptions, readImageText } from "../encode.ts";
import { type Fit, fitWithAlpha } from "../fit.ts";
import type { PixelImage } from "../image.ts";
import { hasHoles, maskOf, type MaskWay, paintedShare } from "../mask.ts";
import { frameHead, readFrame } from "./frames.ts";

export async function runImageProgram(): Promise<void> {
  for (;;) {
    const frame = await readFrame<ImageTask>(readInput);
    if (!frame) return;
    const { reply, bytes } = await answer(frame.message, frame.bytes);
    write(frameHead(reply, bytes.length));
    write(bytes);
  }
}

async function answer(
  task: ImageTask,
  given: Uint8Array<ArrayBuffer>,
): Promise<{ reply: ImageReply; bytes: Uint8Array }> {
  try {
    const { result, bytes } = await performImageTask(task, given);
    return { reply: { result }, bytes };
  } catch (thrown) {
    const { name, message } = thrown instanceof Error ? thrown : new Error(String(thrown));
    return { reply: { error: { name, message } }, bytes: new Uint8Array(0) };
  }
}

/** Nothing else goes on here, so that waiting may block. */
function readInput(length: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = Deno.stdin.readSync(bytes.subarray(filled));
    if (count === null) return Promise.resolve(undefined);
    filled += count;
  }
  return Promise.resolve(bytes);
}

function write(bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) {
    written += Deno.stdout.writeSync(bytes.subarray(written));
  }
}

/** What to do with the bytes that come along. */
export type ImageTask =
  | ({ readonly kind: "inspect" } & DecodeOptions)
  | { readonly kind: "text" }
  | ({ readonly kind: "decode" } & DecodeOptions)
  | ({ readonly kind: "fit"; readonly how: Fit } & DecodeOptions)
  | (
    & { readonly kind: "mask"; readonly how: Fit; readonly way?: MaskWay | undefined }
    & DecodeOptions
  )
  | {
    readonly kind: "encode";
    readonly image: Omit<PixelImage, "data">;
    readonly options: EncodeOptions;
  };

export type ImageTaskOf<Kind extends ImageTask["kind"]> = Extract<ImageTask, { kind: Kind }>;

/** What each kind of task gives, besides bytes. */
export interface ImageResults {
  readonly inspect: ImageInfo;
  readonly text: Record<string, string>;
  /** Decodes an image; the bytes are the samples. */
  readonly decode: Omit<PixelImage, "data">;
  /** Fits an image; the bytes are a PNG. */
  readonly fit: { readonly hasHoles: boolean };
  /** Reads a mask; the bytes are a PNG, of which a share is painted. */
  readonly mask: { readonly share: number };
  /** Encodes an image; the bytes are the file. */
  readonly encode: Omit<EncodedImage, "bytes">;
}

/** The answer to a task; bytes come along. */
export type ImageReply =
  | { readonly result: ImageResults[keyof ImageResults] }
  | { readonly error: { readonly name: string; readonly message: string } };

async function performImageTask(
  task: ImageTask,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<{ result: ImageResults[keyof ImageResults]; bytes: Uint8Array }> {
  switch (task.kind) {
    case "inspect":
      return { result: inspectImage(bytes, task), bytes: new Uint8Array(0) };
    case "text":
      return { result: readImageText(bytes), bytes: new Uint8Array(0) };
    case "decode": {
      const { data, ...image } = await decodeImage(bytes, task);
      return { result: image, bytes: data };
    }
    case "fit": {
      const image = await decodeImage(bytes, task);
      const { bytes: png } = await encodeImage(fitWithAlpha(image, task.how), { format: "png" });
      return { result: { hasHoles: hasHoles(image) }, bytes: png };
    }
    case "mask": {
      const mask = maskOf(await decodeImage(bytes, task), task.how, task.way);
      const { bytes: png } = await encodeImage(mask, { format: "png" });
      return { result: { share: paintedShare(mask) }, bytes: png };
    }
    case "encode": {
      const image = { ...task.image, data: bytes } as PixelImage;
      const { bytes: file, ...rest } = await encodeImage(image, task.options);
      return { result: rest, bytes: file };
    }
  }
}

if (import.meta.main) await runImageProgram();
