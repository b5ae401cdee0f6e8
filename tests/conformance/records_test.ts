/** Records that are huge, damaged or locked, as clients see them. */

import { strict as assert } from "node:assert";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createApp } from "../../server/app.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import { RecordsBusyError } from "../../server/contract/errors.ts";
import { SqliteJobStore } from "../../server/jobs/sqlite_store.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { FailingStore } from "../fakes/failing_store.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";

Deno.test("POST refuses names of any length, and keeps none of them", async () => {
  await using service = await testService();
  const long = "m".repeat(5000);
  const bodies: [path: string, body: unknown][] = [
    ["/v1/videos", { prompt: "a", model: `sora-${long}` }],
    ["/v1/images/generations", { prompt: "a", model: `dall-e-${long}` }],
    ["/v1/images/generations", { prompt: "a", loras: [{ path: long }] }],
    ["/v1/images/generations", { prompt: "a", user: long }],
  ];
  for (const [path, body] of bodies) {
    const response = await service.post(path, body);
    const answer = await response.json();
    assert.equal(response.status, 422, JSON.stringify(answer));
    assert.ok(isErrorBody(answer));
    assert.equal(answer.detail[0].type, "string_too_long");
    assert.equal(answer.detail[0].msg, "String should have at most 4096 characters");
    assert.ok(JSON.stringify(answer).length < 1000, "it is not sent back");
  }
  assert.deepEqual(await service.store.list(), []);
  const negative_prompt = "n".repeat(5000);
  const fine = await service.post("/v1/videos", { prompt: "a", negative_prompt });
  assert.equal(fine.status, 200);
});

Deno.test("records keep no names of unknown fields", async () => {
  await using service = await testService();
  const unknown = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`field_${i}`, 1]));
  const response = await service.post("/v1/videos", { ...unknown, prompt: "a" });
  assert.match(response.headers.get("x-ignored-fields")!, /^field_0, /);
  const { id } = await response.json();
  assert.ok(!JSON.stringify(await service.store.get(id)).includes("field_"));
});

Deno.test("a damaged record breaks no list, and can be deleted", async () => {
  await using service = await testService();
  const ids: string[] = [];
  for (let count = 0; count < 2; count++) {
    const { id } = await (await service.post("/v1/videos", { prompt: "a" })).json();
    await until(async () => (await service.store.get(id))!.status === "completed");
    ids.push(id);
  }
  const [whole, broken] = ids;
  const database = new DatabaseSync(join(service.folder, "jobs.sqlite"));
  for (const column of ["request", "summary", "result"]) {
    database.prepare(`UPDATE jobs SET ${column} = '{' WHERE id = ?`).run(broken!);
  }
  database.close();
  for (const path of ["/v1/videos", "/v1/jobs"]) {
    const { data } = await (await service.get(path)).json();
    const found = data.map(({ id, status }: { id: string; status: string }) => [id, status]);
    assert.deepEqual(found.sort(), [[whole, "completed"], [broken, "failed"]].sort(), path);
  }
  const record = await (await service.get(`/v1/videos/${broken}`)).json();
  assert.equal(record.error.code, "record_damaged");
  assert.equal((await service.get(`/v1/videos/${broken}/content`)).status, 404);
  const gone = await service.get(`/v1/videos/${broken}`, { method: "DELETE" });
  assert.equal(gone.status, 200);
  assert.equal((await (await service.get("/v1/videos")).json()).data.length, 1);
});

Deno.test("requests are 503 while another program has the records locked", async () => {
  const store = new FailingStore(SqliteJobStore.inMemory());
  store.failure = new RecordsBusyError("Cannot use the records of jobs: they are locked");
  store.failing = ["insert", "get", "list"];
  const queue = new JobQueue(store, { maxQueue: 8 });
  const app = createApp({ engine: new FakeEngine(), jobs: { store, queue } });
  const body = { method: "POST", body: '{"prompt":"a"}' };
  const json = { headers: { "content-type": "application/json" } };
  const requests: [string, RequestInit][] = [
    ["/v1/images/generations", { ...body, ...json }],
    ["/v1/videos", {}],
    ["/v1/jobs", {}],
    ["/v1/images/img_1/content", {}],
  ];
  for (const [path, init] of requests) {
    const response = await app.request(path, init);
    const answer = await response.json();
    assert.equal(response.status, 503, path);
    assert.equal(response.headers.get("retry-after"), "5");
    assert.ok(isErrorBody(answer));
    assert.equal(answer.error.code, "records_busy");
  }
});

Deno.test("a client that follows a job is told its end, though the disk is full", async () => {
  await using service = await testService();
  const { id } = await (await service.post("/v1/videos", {
    prompt: "a",
    num_inference_steps: 2,
  })).json();
  const database = new DatabaseSync(join(service.folder, "jobs.sqlite"));
  // What SQLite says of a limit is what it says of a full disk.
  database.exec(
    `CREATE TRIGGER full BEFORE UPDATE ON jobs WHEN new.ended_at IS NOT NULL
     BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`,
  );
  const events = await (await service.get(`/v1/videos/${id}/events`)).text();
  assert.match(events, /"status":"completed"/);
  assert.equal((await (await service.get(`/v1/videos/${id}`)).json()).status, "completed");
  assert.equal((await service.get(`/v1/videos/${id}/content`)).status, 200);
  const { data: [job] } = await (await service.get("/v1/jobs")).json();
  assert.deepEqual([job.id, job.status], [id, "completed"]);
  assert.notEqual(
    database.prepare("SELECT status FROM jobs").get()!["status"],
    "completed",
  );
  database.exec("DROP TRIGGER full");
  await until(() => database.prepare("SELECT status FROM jobs").get()!["status"] === "completed");
  database.close();
});
