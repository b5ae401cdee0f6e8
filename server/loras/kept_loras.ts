/** LoRA files that clients bring, kept where their requests find them. */

import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { shorten } from "../../generation/texts.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { readPaced } from "../http/body.ts";
import { PRIVATE_FILE, PRIVATE_FOLDER, requireFreeSpace } from "../storage/disk.ts";
import { storageFailed } from "../storage/failures.ts";

/** Longest file that is kept, in bytes. */
const MAX_BYTES = 2 * 2 ** 30;

/** Bytes after which the disk is asked again whether it has room. */
const LOOK_BYTES = 64 * 2 ** 20;
/** Names that are files of one folder on every system. */
// deno-lint-ignore no-control-regex
const NAME = /^[^./\\:*?"<>|\x00-\x1f][^/\\:*?"<>|\x00-\x1f]{0,199}\.safetensors$/;

/** Names that Windows has for devices. */
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)\./i;
/** Most bytes of a name that every file system takes. */
const MAX_NAME_BYTES = 200;
/** Folder of files that are on their way, within that of the LoRAs. */
const INCOMING = ".incoming";
/** Age at which one of these is no upload any more, in milliseconds. */
const STALE_MS = 24 * 60 * 60_000;

/**
 * Keeps a file under its name once it has been looked at.
 *
 * @param look looks at the file before it has its name; what it throws ends the upload
 * @returns what `look` gives
 * @throws {ApiError} 400 for a name of no LoRA, 409 where another file has it, 413 for a longer one; what `look` throws
 */
export async function keepLora<T>(
  folder: string,
  name: string,
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  look: (file: string) => Promise<T>,
): Promise<T> {
  const isLong = new TextEncoder().encode(name).length > MAX_NAME_BYTES;
  if (!NAME.test(name) || RESERVED.test(name) || isLong) {
    throw badRequest(
      `Cannot keep a LoRA as '${
        shorten(name)
      }': give a file name of at most ${MAX_NAME_BYTES} bytes that ends with .safetensors`,
      "name",
    );
  }
  const incoming = join(folder, INCOMING);
  await Deno.mkdir(incoming, { recursive: true, mode: PRIVATE_FOLDER }).catch((error) => {
    throw storageFailed(error);
  });
  await removeStale(incoming);
  const file = join(folder, name);
  const part = join(incoming, `${crypto.randomUUID()}.safetensors`);
  try {
    const digest = await write(part, body);
    const seen = await look(part);
    try {
      // Of two uploads with one name one is first.
      await Deno.link(part, file);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw storageFailed(error);
      if (await digestOf(file) !== digest) {
        throw new ApiError(
          409,
          `Cannot keep ${name}: the server has another LoRA of this name; rename the file`,
          { param: "name", code: "name_taken" },
        );
      }
    }
    return seen;
  } finally {
    await Deno.remove(part).catch(() => {});
  }
}

/** Removes what servers that were killed left. */
async function removeStale(incoming: string): Promise<void> {
  for await (const { name } of Deno.readDir(incoming)) {
    const path = join(incoming, name);
    const { mtime } = await Deno.stat(path).catch(() => ({ mtime: null }));
    if (mtime && Date.now() - mtime.getTime() > STALE_MS) await Deno.remove(path).catch(() => {});
  }
}

/** Writes a file, and gives its digest. */
async function write(path: string, body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  using file = await Deno.open(path, { createNew: true, write: true, mode: PRIVATE_FILE });
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of readPaced(body)) {
    if (bytes % LOOK_BYTES + chunk.length >= LOOK_BYTES || bytes === 0) {
      await requireFreeSpace(dirname(path));
    }
    bytes += chunk.length;
    if (bytes > MAX_BYTES) {
      throw new ApiError(
        413,
        `Cannot keep the LoRA: it has more than ${
          MAX_BYTES / 2 ** 30
        } GiB; put it into a folder of --lora-dir`,
        { code: "body_too_large" },
      );
    }
    hash.update(chunk);
    for (let written = 0; written < chunk.length;) {
      written += await file.write(chunk.subarray(written)).catch((error) => {
        throw storageFailed(error);
      });
    }
  }
  await file.sync();
  return hash.digest("hex");
}

async function digestOf(path: string): Promise<string | undefined> {
  try {
    using file = await Deno.open(path);
    const hash = createHash("sha256");
    for await (const chunk of file.readable) hash.update(chunk);
    return hash.digest("hex");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
