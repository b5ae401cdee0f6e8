/** Results as files in one folder. */

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { FilePlace, ResultStorage, StoredFile } from "./result_storage.ts";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "./disk.ts";
import { storageFailed } from "./failures.ts";
import { ServiceError } from "../contract/errors.ts";
import { serveFile } from "./serve_file.ts";
import { isGone, isWriteError } from "../../generation/write_error.ts";

/** Files under one folder, each written whole or not at all. */
export class LocalStorage implements ResultStorage {
  /** The folder, absolute. */
  readonly root: string;

  constructor(folder: string) {
    this.root = resolve(folder);
  }

  /** @throws {RangeError} for names that could lead out of the folder */
  path(name: string): string {
    if (!/^[\w-][\w.-]*$/.test(name)) {
      throw new RangeError(
        `Cannot keep a file named ${JSON.stringify(name)}: use letters and digits`,
      );
    }
    return resolve(this.root, name);
  }

  /** Readers see the old bytes or the new ones, never a part. */
  write(
    name: string,
    bytes: Uint8Array<ArrayBuffer>,
    contentType: string,
  ): Promise<StoredFile> {
    return this.writeFrom(
      name,
      contentType,
      (path) => writeFile(path, bytes, { flag: "wx", mode: PRIVATE_FILE }),
    );
  }

  async writeFrom(
    name: string,
    contentType: string,
    make: (path: string) => Promise<void>,
  ): Promise<StoredFile> {
    const path = this.path(name);
    const temporary = `${path}.${crypto.randomUUID()}.part`;
    try {
      await mkdir(this.root, { recursive: true, mode: PRIVATE_FOLDER });
      await make(temporary);
      const file = await open(temporary, "r+");
      let size: number;
      try {
        // Whatever else makes files lets everybody read them.
        await file.chmod(PRIVATE_FILE);
        // A name that survives a power failure must not lead to bytes that did not.
        await file.sync();
        ({ size } = await file.stat());
      } finally {
        await file.close();
      }
      const etag = await digest(temporary);
      await rename(temporary, path);
      return { name, contentType, size, etag };
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw isWriteError(error) ? storageFailed(error) : error;
    }
  }

  /** Where a file is, absolute; null when it is in a cloud. */
  pathOf({ name, url }: FilePlace): string | null {
    return url === undefined ? this.path(name) : null;
  }

  /** Answers with a file; with its address when it was put into a cloud by an earlier server. */
  content(request: Request, file: StoredFile): Promise<Response | undefined> {
    if (file.url === undefined) return serveFile(request, this.path(file.name), file);
    const headers = { location: file.url, "cache-control": "no-store" };
    return Promise.resolve(new Response(null, { status: 307, headers }));
  }

  /** The address that an earlier server recorded, who put the file into a cloud. */
  link({ url }: StoredFile): Promise<string | null> {
    return Promise.resolve(url ?? null);
  }

  async read({ name }: StoredFile): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      return await Deno.readFile(this.path(name));
    } catch (cause) {
      if (isGone(cause)) return undefined;
      const message = "Cannot read the result: the disk does not give its file";
      throw new ServiceError("storage_failed", message, { cause });
    }
  }

  async remove({ name }: FilePlace): Promise<void> {
    await rm(this.path(name), { force: true }).catch((error) => {
      if (!isGone(error)) throw error;
    });
  }

  removeNamed(name: string): Promise<void> {
    return this.remove({ name });
  }

  async clean(isLeft: (name: string) => Promise<boolean>): Promise<void> {
    const names = await readdir(this.root).catch(() => []);
    for (const name of names) {
      if (await isLeft(name)) await rm(this.path(name), { force: true }).catch(() => {});
    }
  }
}

async function digest(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return `"${hash.digest("hex").slice(0, 32)}"`;
}
