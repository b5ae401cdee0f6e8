/**
 * Jobs of a tab and what they made, in its IndexedDB: every browser can write to it on the page's own thread, and a page
 * of records is read without the results. Jobs that have not ended are in memory: they end with the tab.
 */
import { readFile, removeFile, temporaryPath } from "../../platform/mod.ts";
import { ServiceError } from "../../server/contract/errors.ts";
import { isEnd } from "../../server/jobs/job.ts";
import type {
  JobChange,
  JobEntry,
  JobFilter,
  JobRecord,
  JobStore,
  NewRecord,
} from "../../server/jobs/job_store.ts";
import type { FilePlace, ResultStorage, StoredFile } from "../../server/storage/result_storage.ts";

const DATABASE = "denoise";
const VERSION = 1;
const JOBS = "jobs";
const FILES = "files";
const BY_TIME = "by time";

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  return opened ??= (async () => {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = () => {
      const jobs = request.result.createObjectStore(JOBS, { keyPath: "id" });
      jobs.createIndex(BY_TIME, ["createdAt", "id"]);
      request.result.createObjectStore(FILES);
    };
    return await resultOf(request);
  })();
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
  return promise;
}

async function read<T>(name: string, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return await resultOf(ask((await database()).transaction(name).objectStore(name)));
}

/** Resolves when the browser has it for good. */
async function write(name: string, change: (store: IDBObjectStore) => void): Promise<void> {
  const transaction = (await database()).transaction(name, "readwrite");
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error);
  change(transaction.objectStore(name));
  await promise;
}

export class TabRecords implements Pick<JobStore, "insert" | "update" | "get" | "list" | "delete"> {
  /** Jobs that have not ended, and ended ones that the browser did not take. */
  readonly #here = new Map<string, JobRecord>();

  insert({ id, kind, request, summary }: NewRecord): Promise<void> {
    const times = { createdAt: Date.now(), startedAt: null, endedAt: null };
    const open = { revisedPrompt: null, result: null, error: null };
    const job = { id, kind, request, summary, ...times, ...open };
    this.#here.set(id, { ...job, status: "queued", progress: 0 });
    return Promise.resolve();
  }

  async update(id: string, change: JobChange): Promise<boolean> {
    const job = this.#here.get(id) ?? await this.get(id);
    if (!job) return false;
    Object.assign(job, change);
    if (isEnd(job.status)) {
      // Where the browser takes no more it is shown until the tab is closed.
      await write(JOBS, (jobs) => jobs.put(job)).then(() => this.#here.delete(id), () => {});
    }
    return true;
  }

  async get(id: string): Promise<JobRecord | undefined> {
    return this.#here.get(id) ?? await read<JobRecord>(JOBS, (jobs) => jobs.get(id));
  }

  async list({ statuses, after, limit = Infinity }: JobFilter = {}): Promise<JobEntry[]> {
    const isWanted = ({ status }: JobEntry) => !statuses || statuses.includes(status);
    const found: JobEntry[] = after === undefined
      ? [...this.#here.values()].filter(isWanted).reverse()
      : [];
    if (statuses && !statuses.some(isEnd)) return found;
    const last = after === undefined ? undefined : await this.get(after);
    const jobs = (await database()).transaction(JOBS).objectStore(JOBS).index(BY_TIME);
    const range = last && IDBKeyRange.upperBound([last.createdAt, last.id], true);
    const request = jobs.openCursor(range, "prev");
    for (
      let cursor = await resultOf(request);
      cursor && found.length < limit;
      cursor = await resultOf(request)
    ) {
      if (isWanted(cursor.value)) found.push(cursor.value);
      cursor.continue();
    }
    return found;
  }

  async delete(id: string): Promise<boolean> {
    const wasThere = await this.get(id) !== undefined;
    this.#here.delete(id);
    await write(JOBS, (jobs) => jobs.delete(id));
    return wasThere;
  }
}

export class TabResults
  implements Pick<ResultStorage, "write" | "writeFrom" | "read" | "remove" | "link"> {
  async write(
    name: string,
    bytes: Uint8Array<ArrayBuffer>,
    contentType: string,
  ): Promise<StoredFile> {
    try {
      await write(FILES, (files) => files.put(new Blob([bytes], { type: contentType }), name));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new ServiceError(
        "storage_failed",
        `Cannot keep the result: the browser does not store it (${why}); delete older results, or leave a private window`,
        { cause },
      );
    }
    return { name, contentType, size: bytes.byteLength, etag: `"${name}"` };
  }

  async writeFrom(
    name: string,
    contentType: string,
    make: (path: string) => Promise<void>,
  ): Promise<StoredFile> {
    const path = temporaryPath("");
    try {
      await make(path);
      return await this.write(name, await readFile(path), contentType);
    } finally {
      await removeFile(path);
    }
  }

  async file({ name }: FilePlace): Promise<Blob | undefined> {
    return await read<Blob | undefined>(FILES, (files) => files.get(name));
  }

  async read(file: StoredFile): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const found = await this.file(file);
    return found && new Uint8Array(await found.arrayBuffer());
  }

  async remove({ name }: FilePlace): Promise<void> {
    await write(FILES, (files) => files.delete(name));
  }

  /** Nothing leads to it from elsewhere. */
  link(): Promise<null> {
    return Promise.resolve(null);
  }
}
