/** The disk: room that is left on it, and files that are the server's alone. */

import { statfs } from "node:fs/promises";
import { storageFailed } from "./failures.ts";
import { closeSync, openSync } from "node:fs";

/** Bytes that stay free, or less where that would be more than a share of the disk. */
const MIN_FREE_BYTES = 2 ** 30;
const MIN_FREE_SHARE = 0.05;

interface Disk {
  /** Blocks that this user may still write. */
  readonly bavail: number;
  readonly blocks: number;
  /** Bytes of a block. */
  readonly bsize: number;
}

/** @throws {ServiceError} when the disk is full or nearly so */
export async function requireFreeSpace(
  folder: string,
  read: (folder: string) => Promise<Disk> = statfs,
): Promise<void> {
  // A file system that does not tell is not full.
  const disk = await read(folder).catch(() => undefined);
  if (disk === undefined || disk.blocks === 0) return;
  const { bavail, blocks, bsize } = disk;
  const least = Math.min(MIN_FREE_BYTES, MIN_FREE_SHARE * blocks * bsize);
  if (bavail * bsize >= least) return;
  const message = `${bavail * bsize} bytes are free in ${folder}, and ${Math.ceil(least)} stay so`;
  throw storageFailed(Object.assign(new Error(message), { code: "ENOSPC" }));
}

/** Mode of folders that are made. */
export const PRIVATE_FOLDER = 0o700;
/** Mode of files that are made. */
export const PRIVATE_FILE = 0o600;

/** Makes a file that others would let everybody read; one that is there is left as it is. */
export function makePrivateFile(path: string): void {
  closeSync(openSync(path, "a", PRIVATE_FILE));
}
