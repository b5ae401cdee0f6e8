/** LoRA files that clients bring, kept where their requests find them. */

import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { shorten } from "../../generation/texts.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { readPaced } from "../http/body.ts";
import { requireFreeSpace } from "../storage/disk.ts";
import { storageFailed } from "../storage/failures.ts";

/** Longest file that is kept, in bytes. */
const MAX_BYTES = 2 * 2 ** 30;

/** Bytes after which the disk is asked again whether it has room. */
const LOOK_BYTES = 64 * 2 ** 20;
/** Names that are files of one folder on every system. */
// deno-lint-ignore no-control-regex
const NAME = /^[^./\\:*?"<>|\x00-\x1f][^/\\:*?"<>|\x00-\x1f]{0,199}\.safetensors$/;

/** A file, and where it is. */
export interface KeptFile {
  readonly file: string;
  /** Whether it was not there before. */
  readonly isNew: boolean;
}

/** Keeps a file under its name. @throws {ApiError} 400 for a name of no LoRA, 409 where another file has it, 413 for a longer one */
export async function keepLora(
  folder: string,
  name: string,
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): Promise<KeptFile> {
  if (!NAME.test(name)) {
    throw badRequest(
      `Cannot keep a LoRA as '${shorten(name)}': give a file name that ends with .safetensors`,
      "name",
    );
  }
  await Deno.mkdir(folder, { recursive: true }).catch((error) => {
    throw storageFailed(error);
  });
  const file = join(folder, name);
  const part = join(folder, `.${crypto.randomUUID()}.part`);
  try {
    const digest = await write(part, body);
    const known = await digestOf(file);
    if (known === undefined) await Deno.rename(part, file);
    else if (known !== digest) {
      throw new ApiError(
        409,
        `Cannot keep ${name}: the server has another LoRA of this name; rename the file`,
        { param: "name", code: "name_taken" },
      );
    }
    return { file, isNew: known === undefined };
  } finally {
    await Deno.remove(part).catch(() => {});
  }
}

/** Writes a file, and gives its digest. */
async function write(path: string, body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  using file = await Deno.open(path, { createNew: true, write: true });
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
