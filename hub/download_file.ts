/** One file from a hub to the cache: resumed where an earlier attempt ended, kept only when its hash is right. */

import { createHash, type Hash } from "node:crypto";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  isForbidden,
  leadsTo,
  linkFile,
  lockFile,
  openOutput,
  type OutputFile,
  renameFile,
} from "../platform/disk.ts";
import { fileInfo, makeFolder } from "../platform/mod.ts";
import { HubBusyError, type HubClient, HubError, type HubFile, STALL_MS } from "./hub_client.ts";

/** Where a file belongs. */
export interface FilePlace {
  readonly id: string;
  readonly commit: string;
  readonly folder: string;
}

/** Attempts that get no byte further before it is given up. */
const MAX_ATTEMPTS = 6;
const FIRST_WAIT_MS = 500;
const HASH_CHUNK = 4 * 2 ** 20;

interface DownloadControl {
  /** Told of bytes that are there; a negative count when some of them are thrown away. */
  onBytes(count: number, from: "network" | "disk"): void;
  /** Stops it; what has come stays for the next attempt. */
  readonly signal?: AbortSignal;
  /** Wait before the second attempt, in milliseconds; doubles with each further one. */
  readonly firstWaitMs?: number;
}

export async function downloadFile(
  client: HubClient,
  file: HubFile,
  place: FilePlace,
  control: DownloadControl,
): Promise<void> {
  const blob = join(place.folder, "blobs", file.hash);
  await makeFolder(dirname(blob));
  if (await sizeOf(blob) === file.size) control.onBytes(file.size, "disk");
  else await withLock(place, file.hash, () => fetchBlob(client, file, blob, place, control));
  await link(blob, join(place.folder, "snapshots", place.commit, file.path));
}

/** Fills `blob.incomplete` and renames it. */
async function fetchBlob(
  client: HubClient,
  file: HubFile,
  blob: string,
  place: FilePlace,
  control: DownloadControl,
): Promise<void> {
  // Another process may have finished it while this one waited for the lock.
  if (await sizeOf(blob) === file.size) return control.onBytes(file.size, "disk");
  const partial = `${blob}.incomplete`;
  let wait = control.firstWaitMs ?? FIRST_WAIT_MS;
  let failures = 0;
  for (;;) {
    let [counted, received] = [0, 0];
    try {
      await receive(client, file, partial, place, {
        ...control,
        onBytes: (count, from) => {
          counted += count;
          if (from === "network") received += count;
          control.onBytes(count, from);
        },
      });
      return await renameFile(partial, blob);
    } catch (error) {
      control.signal?.throwIfAborted();
      if (error instanceof HubError || isDiskError(error)) throw error;
      control.onBytes(-counted, "disk");
      if (received > 0) [failures, wait] = [0, control.firstWaitMs ?? FIRST_WAIT_MS];
      failures++;
      if (failures >= MAX_ATTEMPTS) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new Error(
          `Cannot fetch ${file.path} of ${place.id}: ${reason}; ` +
            `${failures} attempts failed. What has come is kept, the next attempt goes on from there`,
          { cause: error },
        );
      }
      const asked = error instanceof HubBusyError ? error.retryAfterMs : undefined;
      const { signal } = control;
      await delay(Math.min(asked ?? wait, 60_000), undefined, signal && { signal })
        .catch(() => signal?.throwIfAborted());
      wait *= 2;
    }
  }
}

/** One connection, from what is there to the end, hashed on the way. */
async function receive(
  client: HubClient,
  file: HubFile,
  partial: string,
  { id, commit }: FilePlace,
  { onBytes, signal }: DownloadControl,
): Promise<void> {
  using output = await openOutput(partial);
  let have = await output.size();
  if (have > file.size) {
    await output.truncate();
    have = 0;
  }
  const digest = createHash(file.hashKind === "sha256" ? "sha256" : "sha1");
  if (file.hashKind === "git-sha1") digest.update(`blob ${file.size}\0`);
  await hashFirst(output, have, digest, onBytes, signal);
  if (have < file.size) {
    const stall = new StallSignal(signal);
    try {
      const response = await client.open(id, commit, file.path, have, stall.signal);
      if (response.status !== 206 && have > 0) {
        // The server sends all of it again; what is there may as well be what it sends.
        await output.truncate();
        await response.body?.cancel();
        onBytes(-have, "disk");
        throw new Error("the server cannot go on where the last attempt ended");
      }
      checkRange(response, have, file);
      for await (const chunk of response.body ?? []) {
        stall.reset();
        const start = have;
        have += chunk.byteLength;
        if (have > file.size) {
          await output.truncate();
          throw new HubError(
            `Cannot fetch ${file.path} of ${id}: more than ${file.size} bytes come`,
          );
        }
        digest.update(chunk);
        await output.write(start, chunk);
        onBytes(chunk.byteLength, "network");
      }
    } finally {
      stall.end();
    }
  }
  if (have < file.size) throw new Error(`the connection ended at ${have} of ${file.size} bytes`);
  const found = digest.digest("hex");
  if (found !== file.hash) {
    await output.truncate();
    throw new HubError(
      `Cannot fetch ${file.path} of ${id}: its ${file.hashKind} is ${found}, the hub says ${file.hash}; ` +
        "it was thrown away, try again",
    );
  }
  await output.sync();
}

function checkRange(response: Response, have: number, { path }: HubFile): void {
  if (have === 0) return;
  const start = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "")?.[1];
  if (Number(start) !== have) {
    throw new HubError(
      `Cannot fetch ${path}: bytes from ${have} on were asked for, ${start ?? "others"} came`,
    );
  }
}

async function hashFirst(
  file: OutputFile,
  count: number,
  digest: Hash,
  onBytes: DownloadControl["onBytes"],
  signal: AbortSignal | undefined,
): Promise<void> {
  const buffer = new Uint8Array(Math.min(HASH_CHUNK, Math.max(1, count)));
  for (let done = 0; done < count;) {
    signal?.throwIfAborted();
    const read = await file.read(done, buffer.subarray(0, Math.min(buffer.length, count - done)));
    if (read === 0) throw new Error("the part that was kept is shorter than it was");
    digest.update(buffer.subarray(0, read));
    done += read;
    onBytes(read, "disk");
  }
}

/** A link as the Python tools make it; it takes its place in one step, as others may look. */
async function link(blob: string, path: string): Promise<void> {
  if (await leadsTo(path, blob)) return;
  await makeFolder(dirname(path));
  const temporary = `${path}.${crypto.randomUUID()}`;
  await linkFile(blob, temporary);
  await renameFile(temporary, path);
}

/** One process at a time fills a blob; the lock is the one of the Python tools. */
async function withLock(
  { folder }: FilePlace,
  hash: string,
  work: () => Promise<void>,
): Promise<void> {
  const name = folder.slice(dirname(folder).length + 1);
  const path = join(dirname(folder), ".locks", name, `${hash}.lock`);
  await makeFolder(dirname(path));
  await using _lock = await lockFile(path);
  await work();
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await fileInfo(path)).size;
  } catch {
    return undefined;
  }
}

/** Whether the disk refuses, and not the other end. */
function isDiskError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return ["ENOSPC", "EDQUOT", "EACCES", "EROFS", "EIO", "EFBIG", "ENAMETOOLONG"].includes(
    String(code),
  ) || isForbidden(error);
}

/** Fires when the caller's signal does, or nothing has come for {@link STALL_MS}. */
class StallSignal {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal | undefined) {
    const own = this.#controller.signal;
    this.signal = outer ? AbortSignal.any([outer, own]) : own;
    this.reset();
  }

  reset(): void {
    this.end();
    this.#timer = setTimeout(() => {
      this.#controller.abort(new Error(`nothing came for ${STALL_MS / 1000} s`));
    }, STALL_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
