import { strict as assert } from "node:assert";
import { JobStore } from "./job_store.ts";

/** Runs with a folder that is removed afterwards. */
async function inFolder(run: (folder: string) => void | Promise<void>) {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const lockFiles = (folder: string) =>
  [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.includes(".lock"));

Deno.test("JobStore keeps what it is told, with any text in it", () => {
  const store = new JobStore();
  const request = { prompt: 'a\0b "quotes" ○ \ud800', seeds: [1, 2] };
  store.insert({ id: "img_1", kind: "image", request });
  const queued = store.get("img_1")!;
  assert.equal(queued.status, "queued");
  assert.deepEqual(queued.request, request);
  assert.ok(Math.abs(queued.createdAt - Date.now()) < 5000);
  store.update("img_1", { status: "completed", progress: 100, endedAt: 5, result: { files: [] } });
  assert.deepEqual(store.get("img_1"), {
    ...queued,
    status: "completed",
    progress: 100,
    endedAt: 5,
    result: { files: [] },
  });
  store.update("img_1", {});
  store.update("img_2", { progress: 1 });
  assert.equal(store.get("img_2"), undefined);
  store.close();
});

Deno.test("JobStore finds its records again after a restart", () =>
  inFolder((folder) => {
    const first = new JobStore(folder);
    first.insert({ id: "a", kind: "image", request: 1 });
    first.update("a", { status: "completed", result: { files: ["a.png"] } });
    first.close();
    assert.deepEqual(lockFiles(folder), []);
    const second = new JobStore(folder);
    assert.deepEqual(second.get("a")!.result, { files: ["a.png"] });
    second.close();
  }));

Deno.test("JobStore ends what a killed server left behind as interrupted, after its death only", () =>
  inFolder(async (folder) => {
    const source = `
      import { JobStore } from ${JSON.stringify(import.meta.resolve("./job_store.ts"))};
      const store = new JobStore(${JSON.stringify(folder)});
      for (const id of ["queued", "running", "done"]) store.insert({ id, kind: "image", request: 0 });
      store.update("running", { status: "in_progress", progress: 40 });
      store.update("done", { status: "completed" });
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

    const beside = new JobStore(folder);
    assert.equal(beside.get("running")!.status, "in_progress", "its server lives");
    beside.close();

    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    const after = new JobStore(folder);
    for (const id of ["queued", "running"]) {
      const { status, error, endedAt } = after.get(id)!;
      assert.equal(status, "failed");
      assert.equal(error!.code, "interrupted");
      assert.ok(endedAt! > 0);
    }
    assert.equal(after.get("done")!.status, "completed");
    assert.equal(lockFiles(folder).length, 1, "the dead server's lock is gone");
    after.close();
  }));

Deno.test("JobStore refuses a folder that cannot be one, in one sentence", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/file`, "");
    assert.throws(() => new JobStore(`${folder}/file`), /^Error: Cannot open the records in /);
    await Deno.writeTextFile(`${folder}/jobs.sqlite`, "this is not a database".repeat(100));
    assert.throws(() => new JobStore(folder), /^Error: Cannot open the records in .*database/);
    assert.deepEqual(lockFiles(folder), []);
  }));

Deno.test("JobStore lists by kind and status, page by page", () => {
  const store = new JobStore();
  const ids = ["a", "b", "c", "d", "e"];
  for (const id of ids) store.insert({ id, kind: id === "c" ? "image" : "video", request: 0 });
  store.update("d", { status: "completed" });
  const list = (filter: Parameters<JobStore["list"]>[0]) => store.list(filter).map(({ id }) => id);
  assert.deepEqual(list({}), ["e", "d", "c", "b", "a"]);
  assert.deepEqual(list({ kind: "video", order: "asc" }), ["a", "b", "d", "e"]);
  assert.deepEqual(list({ kind: "video", limit: 2 }), ["e", "d"]);
  assert.deepEqual(list({ kind: "video", limit: 2, after: "d" }), ["b", "a"]);
  assert.deepEqual(list({ order: "asc", after: "d" }), ["e"]);
  assert.deepEqual(list({ after: "unknown" }), []);
  assert.deepEqual(list({ statuses: ["completed"] }), ["d"]);
  store.delete("d");
  assert.equal(store.get("d"), undefined);
  store.close();
});

Deno.test("JobStore.endedBefore() gives what ended long ago", () => {
  const store = new JobStore();
  for (const id of ["a", "b", "c"]) store.insert({ id, kind: "image", request: 0 });
  store.update("a", { status: "completed", endedAt: 200 });
  store.update("b", { status: "failed", endedAt: 100 });
  assert.deepEqual(store.endedBefore(201, 10).map(({ id }) => id), ["b", "a"]);
  assert.deepEqual(store.endedBefore(200, 10).map(({ id }) => id), ["b"]);
  store.close();
});

Deno.test("JobStore ends a job during which five servers died, instead of giving it to a sixth", async () => {
  const folder = await Deno.makeTempDir();
  const open = () => new JobStore(folder, { adopt: true });
  try {
    let store = open();
    for (const id of ["runs", "waits"]) store.insert({ id, kind: "image", request: null });
    const adopted: string[][] = [];
    for (let death = 0; death < 6; death++) {
      if (store.get("runs")!.status === "queued") store.update("runs", { status: "in_progress" });
      // A store that adopts leaves its rows as a server leaves them that dies.
      store.close();
      store = open();
      adopted.push(store.adopted().map(({ id }) => id));
    }
    const both = ["runs", "waits"];
    assert.deepEqual(adopted, [both, both, both, both, ["waits"], ["waits"]]);
    assert.equal(store.get("runs")!.error!.code, "interrupted");
    store.close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
