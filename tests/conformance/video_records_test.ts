/** Records of videos over HTTP: lists, events, cancelling, removing. */
import assert from "node:assert/strict";
import { testService, until } from "../fakes/service.ts";
import { animator, create, ended, ffmpeg, PATH, videoService as service } from "./video_service.ts";

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
  assert.deepEqual(await list("after="), all);
  for (const query of ["limit=0", "limit=101", "limit=x", "order=foo"]) {
    const refused = await testee.get(`${PATH}?${query}`);
    assert.equal(refused.status, 422, query);
    assert.deepEqual((await refused.json()).detail[0].loc, ["query", query.split("=")[0]]);
  }
  const refused = await (await testee.get(`${PATH}?order=foo`)).json();
  assert.match(refused.error.message, /Input should be 'asc' or 'desc', got 'foo'/);
});

Deno.test("GET /v1/videos gives 20 records where the request does not say", async () => {
  await using testee = await service();
  for (let i = 0; i < 21; i++) {
    await testee.store.insert({ id: `video_${i}`, kind: "video", request: {}, summary: {} });
  }
  const { data, has_more } = await (await testee.get(PATH)).json();
  assert.deepEqual([data.length, has_more], [20, true]);
});

Deno.test("POST /v1/videos answers with a queued record, however soon the work begins", async () => {
  await using testee = await service(animator(20));
  for (let i = 0; i < 3; i++) {
    const { status, progress } = await create(testee, { prompt: "a", num_frames: 1 });
    assert.deepEqual([status, progress], ["queued", 0]);
  }
});

Deno.test("GET /v1/videos/{id} has progress 100 only when the video is completed", async () => {
  const closed = Promise.withResolvers<void>();
  await using testee = await testService({
    ...{ engine: animator(1), ffmpeg },
    storage: (local) => {
      const write = local.writeFrom.bind(local);
      local.writeFrom = async (...args) => {
        const file = await write(...args);
        await closed.promise;
        return file;
      };
      return local;
    },
  });
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 2, num_frames: 1 });
  await until(async () => (await testee.store.get(id))!.progress > 90);
  const record = await (await testee.get(`${PATH}/${id}`)).json();
  assert.deepEqual([record.status, record.progress], ["in_progress", 99]);
  closed.resolve();
  const { status, progress } = await ended(testee, id);
  assert.deepEqual([status, progress], ["completed", 100]);
});

Deno.test("records of videos show a prompt to the key that sent it alone", async () => {
  await using testee = await testService({
    ...{ engine: animator(1), ffmpeg },
    settings: { apiKeys: ["one", "two"] },
  });
  const ask = async (key: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
    return await (await testee.get(path, { ...init, headers })).json();
  };
  const prompt = "a ".repeat(400);
  const made = await ask("one", PATH, { prompt, num_frames: 1 });
  assert.equal(made.prompt, prompt);
  const { data } = await ask("one", PATH);
  assert.ok(prompt.startsWith(data[0].prompt.slice(0, 200)));
  assert.equal((await ask("two", `${PATH}/${made.id}`)).prompt, null);
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
