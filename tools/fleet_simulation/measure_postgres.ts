/**
 * What a PostgreSQL on this machine carries of a fleet's statements (`deno task measure-postgres`).
 *
 *     deno task measure-postgres                     # a cluster of its own, synchronous_commit off
 *     deno task measure-postgres --members 1000
 *     deno task measure-postgres --url postgres://… # an empty database
 */

import { parseArgs } from "node:util";
import { table } from "../../report/cells.ts";
import { claim } from "../../server/fleet/claims.ts";
import { Database } from "../../server/fleet/database.ts";
import { PostgresJobStore, type QueuedRecord } from "../../server/fleet/postgres_store.ts";
import { type MemberState, Roster } from "../../server/fleet/roster.ts";
import { migrate } from "../../server/fleet/schema.ts";
import { Cluster } from "../../tests/fleet/postgres.ts";
import { MODELS } from "./demand.ts";

/** Statements under way at a time: as many as a process has connections. */
const AT_ONCE = 8;
/** Jobs that are queued and claimed. */
const JOBS = 2000;

/** Runs something so often, several at a time; gives how often a second. */
async function perSecond(
  count: number,
  work: (index: number) => Promise<unknown>,
): Promise<number> {
  const start = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) await work(next++);
  }));
  return count / (performance.now() - start) * 1000;
}

function jobOf(index: number): QueuedRecord {
  return {
    id: `img_${crypto.randomUUID()}`,
    ...{ kind: "image", request: { prompt: "a".repeat(200) }, summary: { prompt: "a" } },
    ...{ client: `client ${index % 50}`, model: MODELS[index % MODELS.length]!.name, loras: [] },
    ...{ memory: 0, priority: 0, seconds: 10, front: "front", isReady: true, inputs: [] },
  };
}

function stateOf(index: number): MemberState {
  const models = MODELS.map(({ name }) => name);
  return {
    ...{ version: "0.1.0", kind: "worker", isDraining: false, models, loadedModels: [models[0]!] },
    ...{ loaded: { model: models[index % models.length]!, loras: [] }, places: 1 },
    ...{ running: [`img_${crypto.randomUUID()}`], finished: index, cards: [] },
  };
}

async function measure(url: string, members: number): Promise<[string, string][]> {
  const database = await Database.open(url, "measure");
  try {
    await migrate(database);
    const store = new PostgresJobStore(database);
    const roster = new Roster(database);
    const rows: [string, string][] = [];
    const add = (name: string, rate: number) => rows.push([name, `${rate.toFixed(0)} / s`]);
    const models = MODELS.map(({ name }) => name);
    const free = (index: number) => ({
      ...{ models, memory: Infinity, warmElsewhere: [] },
      loaded: { model: models[index % models.length]!, loras: [] },
    });
    add("jobs queued", await perSecond(JOBS, (index) => store.enqueue(jobOf(index), Infinity)));
    await database.use((sql) => sql`ANALYZE`);
    const claimed: string[] = [];
    add(
      `jobs claimed, of ${JOBS} that wait`,
      await perSecond(JOBS / 2, async (index) => {
        const { job } = await claim(database, `worker ${index % 100}`, free(index));
        if (job) claimed.push(job.record.id);
      }),
    );
    add(
      "jobs ended",
      await perSecond(
        claimed.length,
        (index) =>
          store.update(claimed[index]!, { status: "completed", endedAt: Date.now(), result: {} }),
      ),
    );
    const ids = Array.from({ length: members }, () => crypto.randomUUID());
    const beat = (index: number) =>
      roster.beat({ id: ids[index]!, name: "machine:1", ...stateOf(index) }, []);
    await perSecond(members, beat);
    add(`heartbeats of ${members} members`, await perSecond(members, beat));
    add(`rosters of ${members} members read`, await perSecond(200, () => roster.refresh()));
    add(
      "messages sent",
      await perSecond(
        JOBS,
        () => database.use((sql) => sql`SELECT pg_notify('denoise_live', 'img {}')`),
      ),
    );
    return rows;
  } finally {
    await database.close();
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: { url: { type: "string" }, members: { type: "string", default: "100" } },
  });
  await using cluster = values.url === undefined ? await Cluster.start() : undefined;
  const rows = await measure(values.url ?? await cluster!.database(), Number(values.members));
  console.log(table(["PostgreSQL on this machine", "carries"], rows, [1]));
}
