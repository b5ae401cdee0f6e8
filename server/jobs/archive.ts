/** Results of several jobs as one ZIP file, on a server and in a tab. */

import { Zip, ZipPassThrough } from "fflate";
import { ApiError } from "../contract/errors.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";
import type { JobSummary } from "./job.ts";
import type { JobEntry, JobStore } from "./job_store.ts";
import { resultsOf } from "../inputs/kept_inputs.ts";
import type { JobResult } from "./outputs.ts";

/** Most bytes of the files: beyond 4 GiB ZIP has other headers, which not every program reads. */
const MAX_BYTES = 4_000_000_000;
/** Characters of a prompt in a name. */
const MAX_TITLE = 40;

interface Entry {
  readonly name: string;
  readonly file: StoredFile;
}

interface ReadEntry {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Where results are found. */
interface Archived {
  readonly store: Pick<JobStore, "get">;
  readonly storage: Pick<ResultStorage, "read">;
  readonly isOwn: (job: JobEntry) => boolean;
}

/**
 * The archive as it is made, one file in memory at a time.
 *
 * @param results ids of jobs, or an id, a slash and which of its results
 * @throws {ApiError} 404 for what is not there, or is another client's
 */
export async function archiveOf(results: readonly string[], from: Archived): Promise<Response> {
  const entries = new Map<string, Entry>();
  for (const result of results) {
    for (const entry of await find(result, from)) entries.set(entry.file.name, entry);
  }
  const bytes = [...entries.values()].reduce((sum, { file }) => sum + file.size, 0);
  if (bytes > MAX_BYTES) {
    throw new ApiError(
      413,
      `Cannot archive ${entries.size} results: they have ${bytes} bytes, and a ZIP file holds ${MAX_BYTES}; ask for fewer`,
      { param: "results", code: "archive_too_large" },
    );
  }
  const headers = {
    "cache-control": "no-store",
    "content-disposition": 'attachment; filename="denoise.zip"',
    "content-type": "application/zip",
    "x-content-type-options": "nosniff",
  };
  const files = readEntries([...entries.values()], from);
  // A stream that has begun can be no 404 any more.
  const first = await files.next();
  if (first.done) throw notFound("the results: their files are gone");
  return new Response(zipOf(first.value, files), { headers });
}

/** What is still there, read one after the other: others may delete results meanwhile. */
async function* readEntries(
  entries: readonly Entry[],
  { storage }: Archived,
): AsyncGenerator<ReadEntry, undefined> {
  for (const { name, file } of entries) {
    const bytes = await storage.read(file);
    if (bytes) yield { name, bytes };
  }
}

async function find(
  result: string,
  { store, isOwn }: Archived,
): Promise<Entry[]> {
  const [, id = "", place] = /^(\w+-[\w-]+)(?:\/(\d{1,4}))?$/.exec(result) ?? [];
  const job = await store.get(id, { mayBeOld: true });
  if (!job || !isOwn(job)) throw missing(result);
  const { files = [] } = (job.result ?? {}) as Partial<JobResult>;
  const places = [...resultsOf(job.result)];
  const { prompt = "", seeds = [] } = (job.summary ?? {}) as Partial<JobSummary>;
  const title = prompt.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, MAX_TITLE)
    .replace(/^-|-$/g, "") || job.kind;
  const named = places.map(([index, file]) => {
    const [, ending = "bin"] = /\.(\w+)$/.exec(file.name) ?? [];
    const end = files.length > 1 ? `-${index}` : "";
    return { index, file, name: `${title}-${seeds[index] ?? 0}-${id.slice(-8)}${end}.${ending}` };
  });
  const chosen = place === undefined ? named : named.filter(({ index }) => index === Number(place));
  if (chosen.length === 0) throw missing(result);
  return chosen;
}

function missing(result: string): ApiError {
  return notFound(`${result}: there is no such result`);
}

function notFound(what: string): ApiError {
  const message = `Cannot archive ${what}; list what there is with GET /v1/jobs`;
  return new ApiError(404, message, { param: "results", code: "not_found" });
}

/** Files are stored as they are: images and videos do not get smaller. */
function zipOf(
  first: ReadEntry,
  others: AsyncGenerator<ReadEntry, undefined>,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let zip: Zip;
  let next: ReadEntry | undefined = first;
  return new ReadableStream({
    start(controller) {
      zip = new Zip((error, bytes, isLast) => {
        if (error) return controller.error(error);
        controller.enqueue(bytes as Uint8Array<ArrayBuffer>);
        if (isLast) controller.close();
      });
    },
    async pull() {
      const entry = next ?? (await others.next()).value;
      next = undefined;
      if (!entry) return zip.end();
      const part = new ZipPassThrough(entry.name);
      zip.add(part);
      part.push(entry.bytes, true);
    },
  });
}
