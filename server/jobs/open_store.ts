/** The records of a server, wherever it was told to keep them. */

import type { JobRecord, JobStore } from "./job_store.ts";
import { SqliteJobStore, type SqliteStoreOptions } from "./sqlite_store.ts";
import { WriteBehindStore } from "./write_behind.ts";

/**
 * Opens a server's records.
 *
 * @param folder for the records; they end with the process when it is left out
 * @returns records whose changes are never lost while the process lives, and the jobs that the last server left
 * @throws {Error} when the folder cannot be used
 */
export async function openJobStore(
  folder?: string,
  options: SqliteStoreOptions = {},
): Promise<{ store: JobStore; left: readonly JobRecord[] }> {
  const store = folder === undefined
    ? SqliteJobStore.inMemory()
    : await SqliteJobStore.open(folder, options);
  return { store: new WriteBehindStore(store, options), left: store.left };
}
