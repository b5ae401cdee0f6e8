/** Records of videos over HTTP: lists, events, cancelling, removing. */
import assert from "node:assert/strict";
import { until } from "../fakes/service.ts";
import { animator, create, ended, PATH, videoService as service } from "./video_service.ts";

Deno.test("GET /v1/videos pages through the records, newest first", async () => {
  await using testee = await service();
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    ids.unshift((await create(testee, { prompt: `video ${i}`, num_frames: 1 })).id);
  }
  const list = async (query: string) => await (await testee.get(`${PATH}?${query}`)).json();
  const all = await list("");
  assert.deepEqual(all.data.map(({ id }: { id: string }) => id), ids);
  assert.deepEqual([all.object, all.first_id, all.last_id, all.has_more], [
    "list",
    ids[0],
    ids[4],
    false,
  ]);
  const page = await list(`limit=2&after=${ids[1]}`);
  assert.deepEqual(page.data.map(({ id }: { id: string }) => id), [ids[2], ids[3]]);
  assert.equal(page.has_more, true);
  const oldest = await list("order=asc&limit=1");
  assert.equal(oldest.data[0].id, ids[4]);
  assert.deepEqual((await list("after=unknown")).data, []);
  for (const query of ["limit=0", "limit=101", "limit=x"]) {
    const refused = await testee.get(`${PATH}?${query}`);
    assert.equal(refused.status, 422, query);
    assert.deepEqual((await refused.json()).detail[0].loc, ["query", "limit"]);
  }
});

Deno.test("POST /v1/videos/{id}/cancel ends a video that waits or runs, within a step", async () => {
  await using testee = await service(animator(20));
  const running = await create(testee, { prompt: "a", num_inference_steps: 50 });
  const waiting = await create(testee, { prompt: "b" });
  await until(() => testee.engine.requests.length === 1);
  const early = await testee.get(`${PATH}/${running.id}/content`);
  assert.equal((await early.json()).detail, "Generation is still in-progress");
  for (const { id } of [waiting, running]) {
    await (await testee.get(`${PATH}/${id}/cancel`, { method: "POST" })).body?.cancel();
    assert.equal((await ended(testee, id))["status"], "cancelled");
  }
  assert.equal(testee.engine.requests.length, 1);
  assert.equal((await testee.get(`${PATH}/${running.id}/content`)).status, 404);
});

Deno.test("DELETE /v1/videos/{id} cancels, then removes record and file", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  await until(() => testee.engine.requests.length === 1);
  const record = await (await testee.get(`${PATH}/${id}`, { method: "DELETE" })).json();
  assert.equal(record.status, "deleted");
  assert.equal(record.deleted, true);
  assert.equal((await testee.get(`${PATH}/${id}`)).status, 404);
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 404);

  const finished = await create(testee, { prompt: "a", num_inference_steps: 1, num_frames: 1 });
  await ended(testee, finished.id);
  await (await testee.get(`${PATH}/${finished.id}`, { method: "DELETE" })).body?.cancel();
  const names = (await Array.fromAsync(Deno.readDir(`${testee.folder}/results`)))
    .map(({ name }) => name);
  assert.deepEqual(names, []);
});

Deno.test("GET /v1/videos/{id}/events tells status, progress, previews and the end", async () => {
  await using testee = await service(animator(5));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 8, num_frames: 1 });
  const text = await (await testee.get(`${PATH}/${id}/events`)).text();
  const events = text.split("\n\n").filter((block) => block.startsWith("event: ")).map((block) => {
    const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(block)!;
    return { event: event!, data: JSON.parse(data!) };
  });
  assert.equal(events[0]!.event, "status");
  assert.deepEqual([events.at(-1)!.event, events.at(-1)!.data.status], ["status", "completed"]);
  const progress = events.filter(({ event }) => event === "progress").map(({ data }) => data);
  assert.ok(progress.length > 0);
  assert.ok(progress.every(({ total_steps }) => total_steps === 8));
  const previews = events.filter(({ event }) => event === "preview");
  assert.equal(previews.length, 3);
  // Who comes after the end is told of it at once.
  const late = await (await testee.get(`${PATH}/${id}/events`)).text();
  assert.match(late, /^event: status\ndata: .*"completed"/);
});

Deno.test("HEAD /v1/videos/{id}/events answers at once and watches nothing", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  let watchers = 0;
  const { queue } = testee;
  const watch = queue.watch.bind(queue);
  queue.watch = (...args) => (watchers++, watch(...args));
  const response = await testee.get(`${PATH}/${id}/events`, { method: "HEAD" });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
  assert.equal(watchers, 0);
});

Deno.test("GET /v1/videos/{id}/events lets go of a video whose client has gone", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  let watchers = 0;
  const { queue } = testee;
  const watch = queue.watch.bind(queue);
  queue.watch = (...args) => {
    watchers++;
    const stop = watch(...args);
    return () => (watchers--, stop());
  };
  const response = await testee.get(`${PATH}/${id}/events`);
  assert.equal(watchers, 1);
  await response.body!.cancel();
  await until(() => watchers === 0);
});

Deno.test("DELETE /v1/videos/{id} keeps the record of a file that cannot be removed", async () => {
  await using testee = await service();
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 1, num_frames: 1 });
  await ended(testee, id);
  const file = `${testee.folder}/results/${id}.mp4`;
  await Deno.remove(file);
  await Deno.mkdir(`${file}/full`, { recursive: true });
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 500);
  await Deno.remove(file, { recursive: true });
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 200);
});

Deno.test("GET /v1/jobs shows the queue", async () => {
  await using testee = await service(animator(20));
  await create(testee, { prompt: "a", num_inference_steps: 50 });
  const { id } = await create(testee, { prompt: "b" });
  const body = await (await testee.get("/v1/jobs")).json();
  assert.deepEqual([body.object, body.running, body.waiting], ["list", 1, 1]);
  assert.equal(body.data.find((job: { id: string }) => job.id === id).place, 1);
});
