/** Where the files of one request lie until its job has ended. */

import { randomUUID } from "node:crypto";
import { createWriteStream, type WriteStream } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { PRIVATE_FILE, PRIVATE_FOLDER, requireFreeSpace, storageFailed } from "../storage/disk.ts";

/** The files of one request: a folder that is made when the first one comes. */
export class InputFolder {
  readonly path: string;
  #files = 0;

  /** `id` of a request whose files were kept; letters, digits, `_` and `-`. */
  constructor(root: string, id: string = randomUUID()) {
    if (!/^[\w-]+$/.test(id)) throw new RangeError(`Cannot keep files of a request named ${id}`);
    this.path = resolve(root, id);
  }

  async open(name: string): Promise<{ path: string; stream: WriteStream }> {
    const path = await this.#newPath(name);
    return { path, stream: createWriteStream(path, { flags: "wx", mode: PRIVATE_FILE }) };
  }

  async write(name: string, bytes: Uint8Array): Promise<string> {
    const path = await this.#newPath(name);
    try {
      await writeFile(path, bytes, { flag: "wx", mode: PRIVATE_FILE });
    } catch (error) {
      throw storageFailed(error);
    }
    return path;
  }

  /** @throws {ApiError} 500 when the disk is full or nearly so */
  async requireSpace(): Promise<void> {
    await requireFreeSpace(this.path);
  }

  /** Where a file of it lies, never outside of the folder. */
  pathOf(name: string): string {
    return join(this.path, basename(name));
  }

  /** Removes everything that can be; the rest is left to the next server. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true }).catch(() => {});
  }

  async #newPath(name: string): Promise<string> {
    try {
      await mkdir(this.path, { recursive: true, mode: PRIVATE_FOLDER });
    } catch (error) {
      throw storageFailed(error);
    }
    await this.requireSpace();
    return join(this.path, `${this.#files++}_${sanitizeFileName(name)}`);
  }
}

/** Longest name that is kept, in characters. */
const MAX_LENGTH = 100;

/** A client's name made safe: letters, digits, `_`, `-` and `.`, not first or last; `upload` where nothing is left. */
export function sanitizeFileName(name: string): string {
  // A long row of accents would take the square of its length.
  const last = name.slice(-4 * MAX_LENGTH).normalize("NFKD").split(/[/\\]/).at(-1) ?? "";
  const safe = last.replaceAll(/[^A-Za-z0-9._-]+/g, "_").replaceAll(/_+/g, "_");
  const trimmed = safe.slice(-MAX_LENGTH).replaceAll(/^[._-]+|[._-]+$/g, "");
  return trimmed || "upload";
}
