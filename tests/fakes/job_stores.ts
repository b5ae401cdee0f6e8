/** Records of jobs in each kind of store, for tests of what all of them must do. */

import { Database } from "../../fleet/database.ts";
import { PostgresJobStore } from "../../fleet/postgres_store.ts";
import { migrate } from "../../fleet/schema.ts";
import type { JobStore } from "../../server/jobs/job_store.ts";
import { SqliteJobStore } from "../../server/jobs/sqlite_store.ts";
import { WriteBehindStore } from "../../server/jobs/write_behind.ts";
import { Cluster, noPostgres } from "../fleet/postgres.ts";

/** Records of a test. */
export interface TestRecords {
  readonly store: JobStore;
  /** Makes a job older. */
  age(id: string, ms: number): Promise<void>;
}

let cluster: Promise<Cluster> | undefined;
let database: Promise<Database> | undefined;

Deno.test.afterAll(async () => {
  await (await database)?.close();
  await (await cluster)?.[Symbol.asyncDispose]();
});

/** The address of an empty database of the cluster that all tests of a file share. */
export async function testDatabase(): Promise<string> {
  return await (await (cluster ??= Cluster.start())).database();
}

async function openDatabase(): Promise<Database> {
  const database = new Database(await testDatabase());
  await migrate(database);
  return database;
}

/** Kinds of stores by name. */
const KINDS = {
  SqliteJobStore: (folder: string) => SqliteJobStore.open(folder),
  "SqliteJobStore in memory": () => Promise.resolve(SqliteJobStore.inMemory()),
  "WriteBehindStore on SQLite": async (folder: string) =>
    new WriteBehindStore(await SqliteJobStore.open(folder)),
  PostgresJobStore: async () => {
    const shared = await (database ??= openDatabase());
    // Much sooner than a database of its own.
    await shared.use((sql) => sql`TRUNCATE denoise_jobs, denoise_clients, denoise_inputs`);
    return new PostgresJobStore(shared);
  },
  "WriteBehindStore on PostgreSQL": async (): Promise<JobStore> =>
    new WriteBehindStore(await KINDS.PostgresJobStore()),
} satisfies Record<string, (folder: string) => Promise<JobStore>>;

/** The name of a kind of stores. */
export type StoreKind = keyof typeof KINDS;

/** All kinds of stores. */
export const STORE_KINDS = Object.keys(KINDS) as StoreKind[];

/** Makes a test for each of some kinds; those on PostgreSQL are omitted where it is not installed. */
export function onStores(
  kinds: readonly StoreKind[],
  title: string,
  run: (records: TestRecords) => Promise<void>,
): void {
  for (const kind of kinds) {
    const isOnPostgres = kind.includes("Postgre");
    const isSkipped = isOnPostgres && noPostgres !== undefined;
    Deno.test({
      name: `${title}, with ${kind}${isSkipped ? `: ${noPostgres}` : ""}`,
      ignore: isSkipped,
      // The cluster is started by the first and outlives it.
      ...(isOnPostgres ? { sanitizeResources: false, sanitizeOps: false } : {}),
      fn: async () => {
        const folder = await Deno.makeTempDir();
        const store = await KINDS[kind](folder);
        const { now } = Date;
        try {
          await run({
            store,
            age: async (id, ms) => {
              if (!isOnPostgres) Date.now = () => now() + ms;
              else {
                await (await database!).use((sql) =>
                  sql`UPDATE denoise_jobs SET created_at = created_at - ${ms} WHERE id = ${id}`
                );
              }
            },
          });
        } finally {
          Date.now = now;
          await store.close();
          await Deno.remove(folder, { recursive: true });
        }
      },
    });
  }
}
