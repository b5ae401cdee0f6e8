import { strict as assert } from "node:assert";
import { SqliteJobStore } from "./sqlite_store.ts";
import { isLeftOver } from "./retention.ts";

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
  }
  const unknown = `video_${crypto.randomUUID()}`;
  assert.equal(await isLeftOver(`${unknown}.mp4`, store), false);
  assert.equal(await isLeftOver(`${unknown}.mp4.${part}`, store), true);
  for (const name of ["jobs.sqlite", "holiday.png", "holiday.png.part", ".server-x.lock"]) {
    assert.equal(await isLeftOver(name, store), false, name);
  }
  await store.close();
});
