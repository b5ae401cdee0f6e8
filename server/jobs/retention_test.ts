import { strict as assert } from "node:assert";
import { SqliteJobStore } from "./sqlite_store.ts";
import { setTimeout as delay } from "node:timers/promises";
import { DEFAULT_SETTINGS } from "../settings.ts";
import { isLeftOver, removeLeftInputs, startSweeping } from "./retention.ts";

Deno.test("isLeftOver() takes files of jobs that failed, and halves that nobody writes", async () => {
  const store = SqliteJobStore.inMemory();
  const part = `${crypto.randomUUID()}.part`;
  const expected = {
    queued: [false, true],
    in_progress: [false, false],
    completed: [false, true],
    failed: [true, true],
    cancelled: [true, true],
  } as const;
  for (const [status, [whole, half]] of Object.entries(expected)) {
    const id = `img_${crypto.randomUUID()}`;
    await store.insert({ id, kind: "image", request: {}, summary: null });
    await store.update(id, { status: status as keyof typeof expected });
    assert.equal(await isLeftOver(`${id}.png`, store), whole, status);
    assert.equal(await isLeftOver(`${id}_1.png`, store), whole, status);
    assert.equal(await isLeftOver(`${id}.png.${part}`, store), half, status);
    assert.equal(await isLeftOver(`${id}.mp4.${part}.wav.part`, store), half, status);
  }
  const deleting = `img_${crypto.randomUUID()}`;
  await store.insert({ id: deleting, kind: "image", request: {}, summary: null });
  const files = [0, 1].map((index) => ({ name: `${deleting}_${index}.png`, size: 1 }));
  await store.update(deleting, { status: "completed", result: { files, deleted: [1] } });
  assert.equal(await isLeftOver(`${deleting}_0.png`, store), false);
  assert.equal(await isLeftOver(`${deleting}_1.png`, store), true);
  const unknown = `video_${crypto.randomUUID()}`;
  assert.equal(await isLeftOver(`${unknown}.mp4`, store), false);
  assert.equal(await isLeftOver(`${unknown}.mp4.${part}`, store), true);
  for (const name of ["jobs.sqlite", "holiday.png", "holiday.png.part", ".server.lock"]) {
    assert.equal(await isLeftOver(name, store), false, name);
  }
  await store.close();
});

/** Sweeps every 20 ms, with a job that ended a second ago and is kept for an hour. */
async function sweeping(run: (ids: () => Promise<string[]>) => Promise<void>, ahead = 0) {
  const { now } = Date;
  const store = SqliteJobStore.inMemory();
  await store.insert({ id: "img_a", kind: "image", request: {}, summary: null });
  await store.update("img_a", { status: "completed", endedAt: now() - 1000 });
  Date.now = () => now() + ahead;
  const services = {
    ...{ store, storage: undefined, inputRoot: "/nowhere", log: () => {} },
    settings: { ...DEFAULT_SETTINGS, retainMs: 3_600_000 },
  };
  const stop = startSweeping(services, { everyMs: 20 });
  try {
    await run(async () => (await store.list()).map(({ id }) => id));
  } finally {
    stop();
    Date.now = now;
    await store.close();
  }
}

Deno.test("startSweeping() removes nothing by a clock that is wrong when the server starts", async () => {
  await sweeping(async (ids) => {
    await delay(5);
    assert.deepEqual(await ids(), ["img_a"]);
  }, 3e9);
});

Deno.test("startSweeping() removes what is too old, after a while", async () => {
  await sweeping(async (ids) => {
    while ((await ids()).length > 0) await delay(5);
  }, 3e9);
});

Deno.test("startSweeping() does not believe a clock that jumps ahead", async () => {
  await sweeping(async (ids) => {
    const { now } = Date;
    Date.now = () => now() + 30 * 86_400_000;
    await delay(100);
    assert.deepEqual(await ids(), ["img_a"]);
  });
});

Deno.test("removeLeftInputs() takes files of ended jobs at once, and of no job after a day", async () => {
  const root = await Deno.makeTempDir();
  const store = SqliteJobStore.inMemory();
  for (const [id, status] of [["img_queued", "queued"], ["video_ended", "failed"]] as const) {
    await store.insert({ id, kind: "image", request: {}, summary: null });
    await store.update(id, { status });
  }
  const names = ["img_queued", "video_ended", "img_upload", "holiday"];
  for (const name of names) await Deno.mkdir(`${root}/${name}`);
  const left = () => [...Deno.readDirSync(root)].map(({ name }) => name).sort();
  try {
    await removeLeftInputs(root, store);
    assert.deepEqual(left(), ["holiday", "img_queued", "img_upload"]);
    await removeLeftInputs(root, store, { now: Date.now() + 25 * 60 * 60 * 1000 });
    assert.deepEqual(left(), ["holiday", "img_queued"]);
    await removeLeftInputs(`${root}/missing`, store);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("removeLeftInputs() takes files of no job at once where no other server could have them", async () => {
  const root = await Deno.makeTempDir();
  const started = Date.now();
  const store = SqliteJobStore.inMemory();
  try {
    await Deno.mkdir(`${root}/img_left`);
    await Deno.utime(`${root}/img_left`, started / 1000 - 5, started / 1000 - 5);
    await Deno.mkdir(`${root}/img_arriving`);
    await removeLeftInputs(root, store, { aloneSince: started - 50 });
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["img_arriving"]);
  } finally {
    await store.close();
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("startSweeping() removes the oldest results where all of them take more than they may", async () => {
  const store = SqliteJobStore.inMemory();
  const ids = ["img_a", "img_b", "img_c"];
  for (const id of ids) {
    await store.insert({ id, kind: "image", request: {}, summary: null });
    const file = { name: id, contentType: "image/png", size: 40, etag: '"a"' };
    const result = { files: [file], inputs: [{ ...file, field: "image" }] };
    await store.update(id, { status: "completed", endedAt: Date.now(), result });
    await delay(2);
  }
  const lines: string[] = [];
  const services = {
    ...{ store, storage: undefined, inputRoot: "/nowhere" },
    log: (line: string) => void lines.push(line),
    settings: { ...DEFAULT_SETTINGS, retainBytes: 170 },
  };
  const stop = startSweeping(services, { everyMs: 20 });
  try {
    while (lines.length === 0) await delay(5);
    assert.deepEqual((await store.list()).map(({ id }) => id), ["img_c", "img_b"]);
    assert.deepEqual(lines, ["Removed 1 of the oldest results: together they may take 170 bytes"]);
  } finally {
    stop();
    await store.close();
  }
});
