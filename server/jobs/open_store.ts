/** The records of a server, wherever it was told to keep them. */

import type { JobStore } from "./job_store.ts";
import { SqliteJobStore, type SqliteStoreOptions } from "./sqlite_store.ts";
import { WriteBehindStore } from "./write_behind.ts";

/**
 * Opens a server's records.
 *
 * @param folder for the records; they end with the process when it is left out
 * @param options what to do with jobs that were left
 * @returns records whose changes are never lost while the process lives
 * @throws {Error} when the folder cannot be used
 */
export async function openJobStore(
  folder?: string,
  options: SqliteStoreOptions = {},
): Promise<JobStore> {
  const store = folder === undefined
    ? SqliteJobStore.inMemory()
    : await SqliteJobStore.open(folder, options);
  return new WriteBehindStore(store, options);
}
