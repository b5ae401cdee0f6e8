/**
 * Results as files in one folder.
 *
 * @module
 */

import { mkdir, open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { storageFailed } from "./write_error.ts";

/** A file that is kept. */
export interface StoredFile {
  /** Its name in the folder. */
  name: string;
  /** For the `Content-Type` header. */
  contentType: string;
  /** Length in bytes. */
  size: number;
  /** A strong validator: a digest of the bytes, in quotes. */
  etag: string;
}

/** Files under one folder, each written whole or not at all. */
export class LocalStorage {
  /** The folder, absolute. */
  readonly root: string;

  /** @param folder made when the first file comes */
  constructor(folder: string) {
    this.root = resolve(folder);
  }

  /**
   * Where a file is.
   *
   * @param name letters, digits, `_`, `-` and `.`, not first
   * @returns the absolute path
   * @throws {RangeError} for names that could lead out of the folder
   */
  path(name: string): string {
    if (!/^[\w-][\w.-]*$/.test(name)) {
      throw new RangeError(
        `Cannot keep a file named ${JSON.stringify(name)}: use letters and digits`,
      );
    }
    return resolve(this.root, name);
  }

  /**
   * Writes a file. Readers see the old bytes or the new ones, never a part.
   *
   * @param name see {@link LocalStorage.path}
   * @param bytes the whole file
   * @param contentType for whoever serves it
   * @returns what to keep of it in a record
   * @throws {ApiError} 500 when the disk is full or the folder cannot be written to
   */
  async write(
    name: string,
    bytes: Uint8Array<ArrayBuffer>,
    contentType: string,
  ): Promise<StoredFile> {
    const path = this.path(name);
    const temporary = `${path}.${crypto.randomUUID()}.part`;
    try {
      await mkdir(this.root, { recursive: true });
      const file = await open(temporary, "wx");
      try {
        await file.writeFile(bytes);
        // A name that survives a power failure must not lead to bytes that did not.
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw storageFailed(error);
    }
    return { name, contentType, size: bytes.length, etag: await digest(bytes) };
  }

  /**
   * Removes a file, if it is there.
   *
   * @param name see {@link LocalStorage.path}
   */
  async remove(name: string): Promise<void> {
    await rm(this.path(name), { force: true });
  }
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = [...hash.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `"${hex}"`;
}
