/**
 * `denoise pull`.
 *
 * @module
 */

import { pullModel, type PullProgress } from "../hub/pull.ts";
import { duration, ProgressBar } from "./progress_bar.ts";
import { StopSignals } from "./stop_signals.ts";

/** Flags of `pull`. */
interface PullFlags {
  /** Patterns of files. */
  include?: string[];
  /** A branch, tag or commit. */
  revision?: string;
}

/**
 * Fetches a model into the cache; what is there already is not fetched again.
 *
 * @param id `org/name`
 * @param flags of the command line
 * @returns 0
 */
export async function runPull(id: string, flags: PullFlags): Promise<number> {
  const bar = new ProgressBar();
  const stop = new AbortController();
  using _signals = new StopSignals(() => stop.abort(new DOMException("Cancelled", "AbortError")));
  try {
    const { path, commit, files, bytes } = await pullModel(id, {
      ...flags,
      signal: stop.signal,
      onProgress: (progress) =>
        bar.show(progress.doneBytes / progress.totalBytes, id, describePull(progress)),
    });
    bar.clear();
    console.error(
      `${id} at ${commit.slice(0, 8)}: ${files} files, ${gigabytes(bytes)}`,
    );
    console.log(path);
    return 0;
  } finally {
    bar.clear();
  }
}

/**
 * The words behind the bar of a download.
 *
 * @param progress of it
 * @returns such as `1.2/12.3 GB, 24.0 MB/s, 7 min 42 s left`
 */
function describePull(
  { doneBytes, totalBytes, bytesPerSecond, secondsLeft }: PullProgress,
): string {
  const [unit, name] = totalBytes >= 1e9 ? [1e9, "GB"] as const : [1e6, "MB"] as const;
  const done = `${(doneBytes / unit).toFixed(1)}/${(totalBytes / unit).toFixed(1)} ${name}`;
  if (secondsLeft === undefined) return done;
  return `${done}, ${(bytesPerSecond / 1e6).toFixed(1)} MB/s, ${duration(secondsLeft)} left`;
}

/**
 * A size for people.
 *
 * @param bytes not negative
 * @returns such as `12.3 GB` or `0.4 MB`
 */
export function gigabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
