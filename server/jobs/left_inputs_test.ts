import { strict as assert } from "node:assert";
import { SqliteJobStore } from "./sqlite_store.ts";
import { removeLeftInputs } from "./left_inputs.ts";

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
