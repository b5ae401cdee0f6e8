import { strict as assert } from "node:assert";
import { JobStore } from "./jobs/job_store.ts";
import { isLeftOver } from "./retention.ts";

Deno.test("isLeftOver() takes files of jobs that failed, and halves that nobody writes", () => {
  const store = new JobStore();
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
    store.insert({ id, kind: "image", request: {} });
    store.update(id, { status: status as keyof typeof expected });
    assert.equal(isLeftOver(`${id}.png`, store), whole, status);
    assert.equal(isLeftOver(`${id}_1.png`, store), whole, status);
    assert.equal(isLeftOver(`${id}.png.${part}`, store), half, status);
  }
  const unknown = `video_${crypto.randomUUID()}`;
  assert.equal(isLeftOver(`${unknown}.mp4`, store), false);
  assert.equal(isLeftOver(`${unknown}.mp4.${part}`, store), true);
  for (const name of ["jobs.sqlite", "holiday.png", "holiday.png.part", ".server-x.lock"]) {
    assert.equal(isLeftOver(name, store), false, name);
  }
  store.close();
});
