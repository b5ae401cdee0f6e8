/** From a hub to the cache that the Python tools share. */

import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { fileInfo, makeFolder, writeText } from "../platform/mod.ts";
import { repositoryFolder, revisionSegments } from "./cache.ts";
import { chooseFiles } from "./choose_files.ts";
import { downloadFile } from "./download_file.ts";
import { HubBusyError, HubClient, HubError, type HubFile } from "./hub_client.ts";
import { type HubSettings, hubSettings } from "./hub_settings.ts";

export interface PullProgress {
  /** Bytes that are there, those of earlier attempts included. */
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Speed of the last seconds. */
  readonly bytesPerSecond: number;
  /** Seconds until the download is done; absent while the speed is not known. */
  readonly secondsLeft?: number;
}

export interface ChosenFiles {
  /** The repository. */
  readonly id: string;
  readonly files: number;
  readonly bytes: number;
  /** Bytes that are not there yet. */
  readonly missingBytes: number;
}

export interface PullOptions {
  /** A branch, tag or commit; `main` by default. */
  readonly revision?: string;
  /** Patterns of paths; what the model needs by default. */
  readonly include?: readonly string[];
  /** Chooses files where no patterns do; what the model needs by default. */
  readonly choose?: (id: string, files: readonly HubFile[]) => readonly HubFile[];
  /** Told what was chosen, before the first byte is asked for. */
  readonly onChosen?: (chosen: ChosenFiles) => void;
  /** Most bytes of what is chosen; any number by default. */
  readonly maxBytes?: number;
  /** Bytes of the disk that stay free; none by default. */
  readonly minFreeBytes?: number;
  /** Hub and cache; those of the environment by default. */
  readonly settings?: HubSettings;
  /** Told often how far the download is. */
  readonly onProgress?: (progress: PullProgress) => void;
  /** Stops it; what has come stays for the next attempt. */
  readonly signal?: AbortSignal;
  /** Wait before a second attempt, in milliseconds. */
  readonly firstWaitMs?: number;
}

interface PulledModel {
  readonly path: string;
  readonly commit: string;
  readonly files: number;
  readonly bytes: number;
}

/** Files that come at the same time. */
const CONNECTIONS = 4;
const LIST_ATTEMPTS = 4;

/** Fetches a repository, or the rest of it. */
export async function pullModel(id: string, options: PullOptions = {}): Promise<PulledModel> {
  const { revision = "main", signal } = options;
  const settings = options.settings ?? await hubSettings();
  const folder = repositoryFolder(id, settings.cacheFolder);
  const ref = join(folder, "refs", ...revisionSegments(id, revision));
  if (settings.isOffline) {
    throw new Error(`Cannot fetch ${id}: HF_HUB_OFFLINE is set; unset it, or bring the files here`);
  }
  const client = new HubClient(settings);
  const { commit, files } = await listFiles(client, id, revision, options);
  const { include, choose = chooseFiles } = options;
  const chosen = include ? chooseFiles(id, files, include) : choose(id, files);
  const totalBytes = chosen.reduce((sum, { size }) => sum + size, 0);
  if (options.maxBytes !== undefined && totalBytes > options.maxBytes) {
    throw new RangeError(
      `Cannot fetch ${id}: its files have ${totalBytes} bytes, and at most ${options.maxBytes} are taken`,
    );
  }
  await makeFolder(join(folder, "blobs"));
  const missingBytes = await checkDisk(id, folder, chosen, options.minFreeBytes ?? 0);
  options.onChosen?.({ id, files: chosen.length, bytes: totalBytes, missingBytes });
  const speed = new Speedometer(totalBytes, options.onProgress);
  const stop = new AbortController();
  const control = {
    onBytes: (count: number, from: "network" | "disk") => speed.add(count, from),
    signal: signal ? AbortSignal.any([signal, stop.signal]) : stop.signal,
    ...(options.firstWaitMs === undefined ? {} : { firstWaitMs: options.firstWaitMs }),
  };
  const waiting = [...chosen].sort((a, b) => a.size - b.size);
  const work = async () => {
    for (let file = waiting.shift(); file; file = waiting.shift()) {
      await downloadFile(client, file, { id, commit, folder }, control);
    }
  };
  const workers = Array.from({ length: CONNECTIONS }, work);
  try {
    await Promise.all(workers);
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled(workers);
    throw error;
  }
  if (revision !== commit) {
    // In one step: others may read it meanwhile.
    await writeText(ref, commit);
  }
  return {
    path: join(folder, "snapshots", commit),
    commit,
    files: chosen.length,
    bytes: totalBytes,
  };
}

async function listFiles(
  client: HubClient,
  id: string,
  revision: string,
  { signal, firstWaitMs = 500 }: PullOptions,
) {
  for (let attempt = 1;; attempt++) {
    try {
      return await client.list(id, revision, signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof HubError) throw error;
      if (attempt === LIST_ATTEMPTS) {
        const reason = error instanceof HubBusyError
          ? error.message
          : `Cannot fetch ${id}: ${error instanceof Error ? error.message : String(error)}`;
        throw new Error(`${reason}; check the network, and HF_ENDPOINT where it is set`, {
          cause: error,
        });
      }
      await new Promise((resolve) => setTimeout(resolve, firstWaitMs * 2 ** (attempt - 1)));
    }
  }
}

/** Refuses what the disk cannot hold, before the first byte; returns the bytes that are missing. */
async function checkDisk(
  id: string,
  folder: string,
  files: readonly HubFile[],
  minFreeBytes: number,
): Promise<number> {
  let missing = 0;
  for (const { hash, size } of files) {
    const have = await Promise.all(
      [hash, `${hash}.incomplete`].map((name) =>
        fileInfo(join(folder, "blobs", name)).then((info) => info.size, () => 0)
      ),
    );
    missing += Math.max(0, size - Math.max(...have));
  }
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (missing + minFreeBytes <= free) return missing;
  const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
  throw new Error(
    `Cannot fetch ${id}: ${gigabytes(missing)} are missing, the disk of ${folder} has ${
      gigabytes(free)
    } free${
      minFreeBytes > 0 ? `, of which ${gigabytes(minFreeBytes)} are to stay so` : ""
    }; make room, or name another place in HF_HOME`,
  );
}

/** Bytes over the last seconds. */
class Speedometer {
  readonly #total: number;
  readonly #tell: ((progress: PullProgress) => void) | undefined;
  readonly #marks: { readonly at: number; bytes: number }[] = [{ at: performance.now(), bytes: 0 }];
  #done = 0;
  #told = 0;

  constructor(total: number, tell: ((progress: PullProgress) => void) | undefined) {
    this.#total = total;
    this.#tell = tell;
  }

  add(count: number, from: "network" | "disk"): void {
    this.#done += count;
    // What was there already, or is thrown away, says nothing of the network.
    if (from === "disk") { for (const mark of this.#marks) mark.bytes += count; }
    const now = performance.now();
    if (!this.#tell || (now - this.#told < 100 && this.#done < this.#total)) return;
    this.#told = now;
    this.#marks.push({ at: now, bytes: this.#done });
    while (this.#marks.length > 2 && now - this.#marks[0]!.at > 5000) this.#marks.shift();
    const first = this.#marks[0]!;
    const seconds = (now - first.at) / 1000;
    const bytesPerSecond = seconds > 0 ? Math.max(0, (this.#done - first.bytes) / seconds) : 0;
    this.#tell({
      doneBytes: this.#done,
      totalBytes: this.#total,
      bytesPerSecond,
      ...(bytesPerSecond > 0 ? { secondsLeft: (this.#total - this.#done) / bytesPerSecond } : {}),
    });
  }
}
