import { strict as assert } from "node:assert";
import { SqliteJobStore } from "../jobs/sqlite_store.ts";
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
    await removeLeftInputs(root, store, Date.now() + 25 * 60 * 60 * 1000);
    assert.deepEqual(left(), ["holiday", "img_queued"]);
    await removeLeftInputs(`${root}/missing`, store);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
