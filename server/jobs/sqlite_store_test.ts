import { strict as assert } from "node:assert";
import { DatabaseSync } from "node:sqlite";
import type { NewRecord } from "./job_store.ts";
import { SqliteJobStore } from "./sqlite_store.ts";

const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

/** Runs with a folder that is removed afterwards. */
async function inFolder(run: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A server in a process of its own, which runs the lines and waits to be killed. */
async function serverProcess(folder: string, lines: string) {
  const source = `
    import { SqliteJobStore } from ${JSON.stringify(import.meta.resolve("./sqlite_store.ts"))};
    const store = await SqliteJobStore.open(${JSON.stringify(folder)});
    const add = (id) => store.insert({ id, kind: "image", request: 0, summary: null });
    ${lines}
    console.log("ready");
    setTimeout(() => {}, 60_000);
  `;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", source],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  return {
    kill: async () => {
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
    },
  };
}

Deno.test("SqliteJobStore finds its records again after a restart", () =>
  inFolder(async (folder) => {
    const first = await SqliteJobStore.open(folder);
    await first.insert(RECORD);
    await first.update("a", { status: "completed", result: { files: ["a.png"] } });
    await first.close();
    const second = await SqliteJobStore.open(folder);
    assert.deepEqual((await second.get("a"))!.result, { files: ["a.png"] });
    await second.close();
  }));

Deno.test("SqliteJobStore.open() keeps a second server out while the first lives, and ends what it left", () =>
  inFolder(async (folder) => {
    const other = await serverProcess(
      folder,
      `for (const id of ["queued", "running", "done"]) await add(id);
       await store.update("running", { status: "in_progress", progress: 40 });
       await store.update("done", { status: "completed" });`,
    );
    await assert.rejects(
      SqliteJobStore.open(folder, { patienceMs: 20 }),
      /^Error: Cannot open the records in .*: another server uses this folder; name another folder/,
    );
    await other.kill();
    const store = await SqliteJobStore.open(folder);
    assert.deepEqual(store.left, []);
    for (const id of ["queued", "running"]) {
      const { status, error, endedAt } = (await store.get(id))!;
      assert.equal(status, "failed");
      assert.equal(error!.code, "interrupted");
      assert.ok(endedAt! > 0);
    }
    assert.equal((await store.get("done"))!.status, "completed");
    await store.close();
  }));

Deno.test("SqliteJobStore.open() refuses a folder that cannot be one, in one sentence", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/file`, "");
    await assert.rejects(
      SqliteJobStore.open(`${folder}/file`),
      /^Error: Cannot open the records in /,
    );
    await Deno.writeTextFile(`${folder}/jobs.sqlite`, "this is not a database".repeat(100));
    await assert.rejects(
      SqliteJobStore.open(folder),
      /^Error: Cannot open the records in .*database/,
    );
  }));

Deno.test("SqliteJobStore.open() gives a job during which five servers died to no sixth", () =>
  inFolder(async (folder) => {
    const open = () => SqliteJobStore.open(folder, { resumes: true });
    let store = await open();
    for (const id of ["runs", "waits"]) await store.insert({ ...RECORD, id });
    const adopted: string[][] = [];
    for (let death = 0; death < 6; death++) {
      if ((await store.get("runs"))!.status === "queued") {
        await store.update("runs", { status: "in_progress" });
      }
      // A store that resumes leaves its rows as a server leaves them that dies.
      await store.close();
      store = await open();
      adopted.push(store.left.map(({ id }) => id));
    }
    const both = ["runs", "waits"];
    assert.deepEqual(adopted, [both, both, both, both, ["waits"], ["waits"]]);
    assert.equal((await store.get("runs"))!.error!.code, "interrupted");
    await store.close();
  }));

Deno.test("SqliteJobStore waits for a foreign lock without holding up the thread", () =>
  inFolder(async (folder) => {
    const store = await SqliteJobStore.open(folder, { patienceMs: 150 });
    await store.insert(RECORD);
    const foreign = new DatabaseSync(`${folder}/jobs.sqlite`);
    foreign.exec("BEGIN EXCLUSIVE");
    let [silence, last] = [0, performance.now()];
    const watch = setInterval(() => {
      silence = Math.max(silence, performance.now() - last);
      last = performance.now();
    }, 5);
    await assert.rejects(store.update("a", { progress: 1 }), { name: "RecordsBusyError" });
    assert.ok(silence < 100, `nothing else happened for ${silence} ms`);
    assert.equal((await store.get("a"))!.progress, 0, "reading needs no lock");
    const waiting = store.update("a", { progress: 2 });
    setTimeout(() => foreign.exec("COMMIT"), 20);
    assert.equal(await waiting, true);
    clearInterval(watch);
    foreign.close();
    await store.close();
  }));

Deno.test("SqliteJobStore.open() waits for a foreign lock, and says so when it is in vain", () =>
  inFolder(async (folder) => {
    await (await SqliteJobStore.open(folder)).close();
    const foreign = new DatabaseSync(`${folder}/jobs.sqlite`);
    foreign.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    await assert.rejects(
      SqliteJobStore.open(folder, { patienceMs: 30 }),
      /another program has had them locked/,
    );
    setTimeout(() => foreign.close(), 20);
    await (await SqliteJobStore.open(folder)).close();
  }));

Deno.test("SqliteJobStore shows a row that is damaged as failed, and the others as they are", () =>
  inFolder(async (folder) => {
    const store = await SqliteJobStore.open(folder);
    const columns = ["request", "summary", "result", "error", "revised_prompt", "status"];
    for (const id of ["whole", ...columns]) {
      await store.insert({ ...RECORD, id });
      await store.update(id, { status: "completed", result: {} });
    }
    const foreign = new DatabaseSync(`${folder}/jobs.sqlite`);
    for (const column of columns) {
      foreign.exec(`UPDATE jobs SET ${column} = '{"broken' WHERE id = '${column}'`);
    }
    foreign.close();
    assert.equal((await store.list()).length, columns.length + 1);
    assert.equal((await store.expired({ ms: -Infinity, unfinished: 1 }, 10)).length, 0);
    assert.equal((await store.get("whole"))!.status, "completed");
    for (const column of columns) {
      const { status, error } = (await store.get(column))!;
      assert.deepEqual([status, error?.code], ["failed", "record_damaged"], column);
    }
    await store.close();
  }));

Deno.test("SqliteJobStore gives room back when records go", () =>
  inFolder(async (folder) => {
    const store = await SqliteJobStore.open(folder);
    for (let index = 0; index < 20; index++) {
      await store.insert({ ...RECORD, id: `${index}`, request: "x".repeat(400_000) });
    }
    for (let index = 0; index < 20; index++) await store.delete(`${index}`);
    await store.insert(RECORD);
    const beside = new DatabaseSync(`${folder}/jobs.sqlite`);
    const { page_count } = beside.prepare("PRAGMA page_count").get()!;
    beside.close();
    assert.ok(Number(page_count) < 20, `${page_count} pages are left`);
    await store.close();
    assert.ok(Deno.statSync(`${folder}/jobs.sqlite`).size < 100_000);
  }));

Deno.test("SqliteJobStore.open() brings the table of an older version up to date", () =>
  inFolder(async (folder) => {
    const older = new DatabaseSync(`${folder}/jobs.sqlite`);
    older.exec(`
      CREATE TABLE jobs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL,
        progress INTEGER NOT NULL, owner TEXT NOT NULL, created_at INTEGER NOT NULL,
        started_at INTEGER, ended_at INTEGER, request TEXT NOT NULL, result TEXT, error TEXT) STRICT;
      INSERT INTO jobs VALUES ('v', 'video', 'completed', 100, 'o', 1, 2, 3,
        '{"model":"m","revisedPrompt":"fine"}', '{"files":[]}', NULL);
      INSERT INTO jobs VALUES ('b', 'video', 'completed', 100, 'o', 1, 2, 3, '{', NULL, NULL)`);
    older.close();
    const store = await SqliteJobStore.open(folder);
    const { summary, revisedPrompt, result } = (await store.get("v"))!;
    assert.deepEqual(summary, { model: "m", revisedPrompt: "fine" });
    assert.equal(revisedPrompt, "fine");
    assert.deepEqual(result, { files: [] });
    assert.equal((await store.get("b"))!.error!.code, "record_damaged");
    await store.close();
    const now = new DatabaseSync(`${folder}/jobs.sqlite`);
    assert.equal(now.prepare("PRAGMA auto_vacuum").get()!["auto_vacuum"], 1);
    now.close();
  }));

for (
  const [what, remove] of [
    ["folder", (folder: string) => Deno.removeSync(folder, { recursive: true })],
    ["file", (folder: string) => Deno.removeSync(`${folder}/jobs.sqlite`)],
  ] as const
) {
  Deno.test({
    name: `SqliteJobStore writes its records anew when their ${what} was removed`,
    // Windows removes no file that is open.
    ignore: Deno.build.os === "windows",
    fn: () =>
      inFolder(async (root) => {
        const folder = `${root}/outputs`;
        const lines: string[] = [];
        const store = await SqliteJobStore.open(folder, { log: (line) => lines.push(line) });
        await store.insert(RECORD);
        remove(folder);
        await store.insert({ ...RECORD, id: "b" });
        assert.equal(lines.length, 1);
        assert.match(lines[0]!, /were removed or moved while this server used them/);
        const beside = new DatabaseSync(`${folder}/jobs.sqlite`);
        const rows = beside.prepare("SELECT id, status FROM jobs ORDER BY rowid").all();
        assert.deepEqual(rows.map((row) => ({ ...row })), [
          { id: "a", status: "queued" },
          { id: "b", status: "queued" },
        ]);
        beside.close();
        await assert.rejects(SqliteJobStore.open(folder, { patienceMs: 1 }), /another server uses/);
        await store.close();
        const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
        assert.deepEqual(names, [".server.lock", "jobs.sqlite"]);
      }),
  });
}
