/** Leaving room on the disk: what strangers send must not fill it. */

import { statfs } from "node:fs/promises";
import { storageFailed } from "./write_error.ts";

/** Bytes that stay free, or less where that would be more than a share of the disk. */
const MIN_FREE_BYTES = 2 ** 30;
const MIN_FREE_SHARE = 0.05;

/** What `statfs` says of a disk. */
interface Disk {
  /** Blocks that this user may still write. */
  readonly bavail: number;
  /** All blocks. */
  readonly blocks: number;
  /** Bytes of a block. */
  readonly bsize: number;
}

/**
 * Refuses to write where too little would be left.
 *
 * @throws {ServiceError} when the disk is full or nearly so
 */
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
