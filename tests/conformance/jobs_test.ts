/** Jobs of every kind: images that nobody waits for, their records, their events. */

import { strict as assert } from "node:assert";
import { unzipSync } from "fflate";
import { FakeEngine } from "../fakes/engine.ts";
import { type TestService, testService, until } from "../fakes/service.ts";
import { png } from "./video_service.ts";

const GENERATIONS = "/v1/images/generations";
const ASYNC = { headers: { prefer: "respond-async" } };

async function start(testee: TestService, body: unknown, init: RequestInit = ASYNC) {
  const response = await testee.post(GENERATIONS, body, init);
  const job = await response.json();
  assert.equal(response.status, 202, JSON.stringify(job));
  return job;
}

async function ended(testee: TestService, id: string) {
  await until(async () =>
    !["queued", "in_progress"].includes((await testee.store.get(id))!.status)
  );
  return await (await testee.get(`/v1/jobs/${id}`)).json();
}

Deno.test("POST with Prefer: respond-async answers with a job that leads to the images", async () => {
  await using testee = await testService();
  const response = await testee.post(GENERATIONS, { prompt: "a", n: 2, seed: 5 }, ASYNC);
  assert.equal(response.status, 202);
  assert.equal(response.headers.get("preference-applied"), "respond-async");
  const { id, status } = await response.json();
  assert.equal(response.headers.get("location"), `/v1/jobs/${id}`);
  assert.ok(["queued", "in_progress"].includes(status));
  const job = await ended(testee, id);
  assert.equal(job.status, "completed");
  assert.deepEqual(job.outputs.map(({ seed }: { seed: number }) => seed), [5, 6]);
  for (const { url, content_type } of job.outputs) {
    const content = await testee.get(url);
    assert.deepEqual([content.status, content.headers.get("content-type")], [200, content_type]);
    await content.body?.cancel();
  }
});

Deno.test("an image that nobody waits for outlives its client, and is cancelled by id", async () => {
  await using testee = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const left = new AbortController();
  const init = { ...ASYNC, signal: left.signal };
  const { id } = await start(testee, { prompt: "a", num_inference_steps: 50 }, init);
  left.abort();
  await until(async () => (await testee.store.get(id))?.status === "in_progress");
  await (await testee.get(`/v1/jobs/${id}/cancel`, { method: "POST" })).body?.cancel();
  assert.equal((await ended(testee, id)).status, "cancelled");
});

Deno.test("GET /v1/jobs/{id} names the model that makes a video, whatever the request calls it", async () => {
  await using testee = await testService();
  const sent = { prompt: "a", model: "sora-2", num_frames: 5 };
  const { id, model } = await (await testee.post("/v1/videos", sent)).json();
  const { request } = await (await testee.get(`/v1/jobs/${id}`)).json();
  assert.deepEqual([model, request.model], ["sora-2", "gradients"]);
  await ended(testee, id);
});

Deno.test("GET /v1/jobs/{id} has a request that makes the same image again", async () => {
  await using testee = await testService({ settings: { strictFields: true } });
  const body = { prompt: "a", size: "48x64", num_inference_steps: 3, negative_prompt: "b" };
  const first = await ended(testee, (await start(testee, body)).id);
  assert.equal(first.request.num_inference_steps, 3);
  assert.equal(first.request.guidance_scale, 3.5);
  assert.equal(first.request.size, "48x64");
  const { input_images, input_mask, input_control, input_video } = first.request;
  assert.deepEqual([input_images, input_mask, input_control, input_video], [
    ...[0, false, false, false],
  ]);
  const again = await ended(testee, (await start(testee, first.request)).id);
  const bytes = async (job: typeof first) => (await testee.get(job.outputs[0].url)).bytes();
  assert.deepEqual(await bytes(again), await bytes(first));
});

Deno.test("GET /v1/jobs pages through what has ended, the newest first", async () => {
  await using testee = await testService();
  const ids: string[] = [];
  for (const prompt of ["a", "b", "c"]) {
    ids.unshift((await start(testee, { prompt })).id);
    await ended(testee, ids[0]!);
  }
  const first = await (await testee.get("/v1/jobs?limit=2")).json();
  assert.deepEqual(first.data.map(({ id }: { id: string }) => id), ids.slice(0, 2));
  assert.deepEqual([first.has_more, first.data[0].prompt], [true, "c"]);
  const rest = await (await testee.get(`/v1/jobs?after=${ids[1]}`)).json();
  assert.deepEqual(rest.data.map(({ id }: { id: string }) => id), ids.slice(2));
  assert.equal(rest.has_more, false);
  const response = await testee.get(`/v1/jobs/${ids[0]}`, { method: "DELETE" });
  assert.equal((await response.json()).deleted, true);
  assert.equal((await testee.get(`/v1/jobs/${ids[0]}`)).status, 404);
  assert.equal((await testee.get(`/v1/images/${ids[0]}/content`)).status, 404);
});

Deno.test("DELETE /v1/jobs/{id}/outputs/{index} removes one result; the others keep their places, and the last takes the job along", async () => {
  await using testee = await testService();
  const { id } = await start(testee, { prompt: "a", n: 3, seed: 5 });
  const before = await ended(testee, id);
  const remove = async (index: number | string) => {
    const answer = await testee.get(`/v1/jobs/${id}/outputs/${index}`, { method: "DELETE" });
    return [answer.status, await answer.json()] as const;
  };
  const [status, job] = await remove(1);
  assert.deepEqual([status, job.deleted], [200, false]);
  const { outputs } = await (await testee.get(`/v1/jobs/${id}`)).json();
  assert.deepEqual(outputs, [before.outputs[0], before.outputs[2]]);
  assert.deepEqual(outputs, job.outputs);
  assert.deepEqual(outputs.map(({ index }: { index: number }) => index), [0, 2]);
  const statusOf = async (path: string) => {
    const { body, status } = await testee.get(path);
    await body?.cancel();
    return status;
  };
  assert.deepEqual(
    await Promise.all(before.outputs.map(({ url }: Record<string, string>) => statusOf(url!))),
    [
      ...[200, 404, 200],
    ],
  );
  const names = async () =>
    Object.keys(unzipSync(
      await (await testee.post("/v1/jobs/archive", { results: [id] })).bytes(),
    )).map((name) => name.at(-5));
  assert.deepEqual(await names(), ["0", "2"]);
  const lost = await testee.post("/v1/jobs/archive", { results: [`${id}/1`] });
  assert.equal((await lost.json()).error.code, "not_found");
  for (const index of [1, 3, -1, "x"]) {
    const [status, { error }] = await remove(index);
    assert.deepEqual([status, error.code], [404, "not_found"], `${index}`);
  }
  const both = await Promise.all([remove(0), remove(2)]);
  assert.deepEqual(both.map(([status, { deleted }]) => [status, deleted]), [
    ...[[200, false], [200, true]],
  ]);
  assert.equal(await statusOf(`/v1/jobs/${id}`), 404);
  assert.equal((await remove(0))[1].error.message, "Job not found");
});

Deno.test("DELETE /v1/jobs/{id}/outputs/{index} records what is deleted before its file goes", async () => {
  const order: unknown[] = [];
  let id = "";
  await using testee = await testService({
    storage: (local) => {
      const remove = local.remove.bind(local);
      local.remove = async (file) => {
        const { result } = (await testee.store.get(id))!;
        order.push([file.name.at(-5), (result as { deleted?: number[] }).deleted]);
        await remove(file);
      };
      return local;
    },
  });
  ({ id } = await start(testee, { prompt: "a", n: 2 }));
  await ended(testee, id);
  const remove = async (index: number) => {
    const answer = await testee.get(`/v1/jobs/${id}/outputs/${index}`, { method: "DELETE" });
    await answer.body?.cancel();
    return answer.status;
  };
  assert.equal(await remove(1), 200);
  assert.deepEqual(order, [["1", [1]]]);
  assert.equal(await remove(0), 200);
  assert.deepEqual(order.slice(1), [["0", [0, 1]], ["1", [0, 1]]]);
});

Deno.test("DELETE /v1/jobs/{id}/outputs/{index} of a job that another server deletes meanwhile is a 404", async () => {
  await using testee = await testService();
  const { id } = await start(testee, { prompt: "a", n: 2 });
  await ended(testee, id);
  const update = testee.store.update.bind(testee.store);
  testee.store.update = async (...change) => {
    await testee.store.delete(id);
    return await update(...change);
  };
  const answer = await testee.get(`/v1/jobs/${id}/outputs/0`, { method: "DELETE" });
  assert.equal(answer.status, 404);
  assert.equal((await answer.json()).error.message, "Job not found");
});

Deno.test("of two servers that delete a job or its last output at once, one answers that it is gone", async () => {
  await using testee = await testService();
  const remove = testee.store.delete.bind(testee.store);
  testee.store.delete = async (id) => {
    // The other server was faster.
    await remove(id);
    return await remove(id);
  };
  for (const end of ["/outputs/0", ""]) {
    const { id } = await start(testee, { prompt: "a" });
    await ended(testee, id);
    const answer = await testee.get(`/v1/jobs/${id}${end}`, { method: "DELETE" });
    assert.equal(answer.status, 404, end);
    assert.equal((await answer.json()).error.message, "Job not found");
  }
});

Deno.test("DELETE /v1/jobs/{id}/outputs/{index} waits for a removal of the job that is under way", async () => {
  const removing = Promise.withResolvers<void>();
  const mayRemove = Promise.withResolvers<void>();
  await using testee = await testService({
    storage: (local) => {
      const remove = local.remove.bind(local);
      local.remove = async (file) => {
        removing.resolve();
        await mayRemove.promise;
        await remove(file);
      };
      return local;
    },
  });
  const { id } = await start(testee, { prompt: "a", n: 2 });
  await ended(testee, id);
  const remove = async (end: string) => {
    const answer = await testee.get(`/v1/jobs/${id}${end}`, { method: "DELETE" });
    const { deleted, error } = await answer.json();
    return [answer.status, deleted ?? error.message];
  };
  const whole = remove("");
  await removing.promise;
  const one = remove("/outputs/0");
  mayRemove.resolve();
  assert.deepEqual(await Promise.all([whole, one]), [[200, true], [404, "Job not found"]]);
  assert.deepEqual([...Deno.readDirSync(`${testee.folder}/results`)], []);
});

Deno.test("DELETE /v1/jobs/{id}/outputs/{index} of a job that runs is a 409", async () => {
  await using testee = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const { id } = await start(testee, { prompt: "a", num_inference_steps: 50 });
  const answer = await testee.get(`/v1/jobs/${id}/outputs/0`, { method: "DELETE" });
  assert.equal(answer.status, 409);
  assert.match(
    (await answer.json()).error.message,
    /^Cannot delete an output of the image: it is not finished/,
  );
  await (await testee.get(`/v1/jobs/${id}/cancel`, { method: "POST" })).body?.cancel();
});

Deno.test("GET /v1/jobs/{id}/events tells whoever comes late how far it is, with the last preview", async () => {
  await using testee = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const { id } = await start(testee, { prompt: "a", num_inference_steps: 20, partial_images: 3 });
  const seen = new Set<string>();
  testee.queue.watch(id, ({ type }) => seen.add(type));
  await until(() => seen.has("preview"));
  const response = await testee.get(`/v1/jobs/${id}/events`);
  const events = [...(await response.text()).matchAll(/^event: (\w+)\ndata: (.*)$/gm)]
    .map(([, type, data]) => ({ type, data: JSON.parse(data!) }));
  assert.equal(events[0]!.type, "status");
  assert.deepEqual(events.slice(1, 3).map(({ type }) => type).sort(), ["preview", "progress"]);
  assert.equal(events.find(({ type }) => type === "progress")!.data.stage, "denoise");
  assert.deepEqual([events.at(-1)!.type, events.at(-1)!.data.status], ["status", "completed"]);
});

Deno.test("with keys, a job's prompt and results are shown to the key that sent it alone", async () => {
  await using testee = await testService({ settings: { apiKeys: ["mine", "theirs"] } });
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const headers = { ...ASYNC.headers, ...as("mine").headers };
  const { id } = await start(testee, { prompt: "a secret" }, { headers });
  await until(async () => (await testee.store.get(id))?.status === "completed");
  const shown = async (path: string, key: string) => (await testee.get(path, as(key))).json();
  assert.equal((await shown(`/v1/jobs/${id}`, "mine")).request.prompt, "a secret");
  const { prompt, outputs, request } = await shown(`/v1/jobs/${id}`, "theirs");
  assert.deepEqual([prompt, outputs, request], [null, null, null]);
  assert.ok(!JSON.stringify(await shown("/v1/jobs", "theirs")).includes("secret"));
  assert.ok(!JSON.stringify(await testee.store.get(id)).includes("mine"), "no key is recorded");
});

Deno.test("with keys, a video's rewritten prompt, seeds and previews are shown to the key that sent it alone", async () => {
  const enhancer = { enhance: (prompt: string) => Promise.resolve(`rewritten ${prompt}`) };
  await using testee = await testService({ settings: { apiKeys: ["mine", "theirs"] }, enhancer });
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const body = { prompt: "a secret", enhance_prompt: true, seed: 4242 };
  const video = await (await testee.post("/v1/videos", body, as("mine"))).json();
  assert.deepEqual([video.revised_prompt, video.seeds], ["rewritten a secret", [4242]]);
  const paths = [`/v1/videos/${video.id}`, "/v1/videos", `/v1/videos/${video.id}/events`];
  for (const path of [...paths, `/v1/jobs/${video.id}/events`, "/v1/jobs"]) {
    const shown = async (key: string) => await (await testee.get(path, as(key))).text();
    const theirs = await shown("theirs");
    assert.match(await shown("mine"), /secret/, path);
    assert.doesNotMatch(theirs, /secret|4242|event: preview/, path);
  }
});

Deno.test("a key is one client, however requests spell it", async () => {
  const engine = new FakeEngine({ stepMs: 100 });
  await using testee = await testService({ settings: { apiKeys: ["mine", "theirs"] }, engine });
  const post = async (authorization: string, headers = {}) =>
    (await start(testee, { prompt: "a", num_inference_steps: 20 }, {
      headers: { ...ASYNC.headers, authorization, ...headers },
    })).id;
  const spellings = ["Bearer mine", "bearer mine", "BEARER   mine"];
  const ids = [];
  for (const one of spellings) ids.push(await post(one));
  const other = await post("Bearer theirs");
  // A server of a fleet learns of the order a moment later.
  await until(() => testee.queue.order().length === 3);
  assert.deepEqual(testee.queue.order(), [other, ...ids.slice(1)]);
  const key = { "idempotency-key": "one" };
  const same = await Promise.all(spellings.map((one) => post(one, key)));
  assert.equal(new Set(same).size, 1);
});

Deno.test("POST with Prefer: respond-async is refused where no results are kept", async () => {
  await using testee = await testService({ keep: false });
  const response = await testee.post(GENERATIONS, { prompt: "a" }, ASYNC);
  assert.equal(response.status, 400);
  assert.match((await response.json()).error.message, /keeps no results/);
});

Deno.test("GET /v1/jobs/{id}/inputs/{index} gives what a finished request brought, until its job is deleted", async () => {
  await using testee = await testService({
    engine: new FakeEngine({ info: { supportedTasks: ["I2I"], maxEditImages: 2 } }),
    settings: { apiKeys: ["mine", "theirs"] },
  });
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const first = await png();
  const body = new FormData();
  body.append("prompt", "a");
  body.append("image[]", first, "first.png");
  body.append("url", `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`);
  const headers = { ...ASYNC.headers, ...as("mine").headers };
  const sent = await testee.get("/v1/images/edits", { method: "POST", body, headers });
  const { id } = await sent.json();
  assert.equal(sent.status, 202);
  await until(async () => (await testee.store.get(id))?.status === "completed");
  const { inputs, outputs } = await (await testee.get(`/v1/jobs/${id}`, as("mine"))).json();
  const shown = inputs.map((input: Record<string, unknown>) => [input.field, input.content_type]);
  assert.deepEqual(shown, [["image", "image/png"], ["url", "image/png"]]);
  assert.equal(inputs[0].bytes, first.size);
  const content = await testee.get(inputs[0].url, as("mine"));
  assert.deepEqual(await content.bytes(), await first.bytes());
  const statusOf = async (path: string, key: string) => {
    const { body, status } = await testee.get(path, as(key));
    await body?.cancel();
    return status;
  };
  assert.equal(await statusOf(inputs[0].url, "theirs"), 404);
  assert.equal(await statusOf(`/v1/jobs/${id}/inputs/2`, "mine"), 404);
  assert.equal((await (await testee.get(`/v1/jobs/${id}`, as("theirs"))).json()).inputs, null);
  const files = async () =>
    (await Array.fromAsync(Deno.readDir(`${testee.folder}/results`))).length;
  const before = await files();
  await testee.get(`/v1/jobs/${id}`, { ...as("mine"), method: "DELETE" });
  assert.equal(await files(), before - inputs.length - outputs.length);
});

Deno.test("with --no-keep-inputs, nothing stays of what a request brought", async () => {
  await using testee = await testService({
    engine: new FakeEngine({ info: { supportedTasks: ["I2I"], maxEditImages: 1 } }),
    settings: { keepsInputs: false },
  });
  const body = new FormData();
  body.append("prompt", "a");
  body.append("image", await png(), "first.png");
  const sent = await testee.get("/v1/images/edits", { method: "POST", body, ...ASYNC });
  assert.deepEqual((await ended(testee, (await sent.json()).id)).inputs, []);
});

Deno.test("POST /v1/jobs/archive gives results of several jobs as one ZIP file, those of the client alone", async () => {
  await using testee = await testService({ settings: { apiKeys: ["mine", "theirs"] } });
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const send = { headers: { ...ASYNC.headers, ...as("mine").headers } };
  const two = await start(testee, { prompt: "A red Fox!", n: 2, seed: 5 }, send);
  const one = await start(testee, { prompt: "…", seed: 7, output_format: "png" }, send);
  await until(async () => (await testee.store.get(one.id))?.status === "completed");
  const archive = (results: unknown, key = "mine") =>
    testee.post("/v1/jobs/archive", { results }, as(key));
  const zip = unzipSync(await (await archive([one.id, `${two.id}/1`, `${two.id}/1`])).bytes());
  const names = [`image-7-${one.id.slice(-8)}.png`, `a-red-fox-6-${two.id.slice(-8)}-1.jpg`];
  assert.deepEqual(Object.keys(zip), names);
  const content = await testee.get(`/v1/images/${two.id}/content?variant=1`, as("mine"));
  assert.deepEqual(new Uint8Array(zip[names[1]!]!), await content.bytes());
  assert.equal(Object.keys(unzipSync(await (await archive([two.id])).bytes())).length, 2);
  for (
    const [results, key] of [[[`${two.id}/2`], "mine"], [["img_x"], "mine"], [[one.id], "theirs"]]
  ) {
    const refused = await archive(results, key as string);
    assert.equal(refused.status, 404);
    assert.match(
      (await refused.json()).error.message,
      /^Cannot archive \S+: there is no such result/,
    );
  }
});

Deno.test("POST /v1/jobs/archive has the files that are left, and is a 404 where there are none", async () => {
  await using testee = await testService();
  const { id } = await start(testee, { prompt: "a", n: 3, seed: 5 });
  await ended(testee, id);
  const files = [...Deno.readDirSync(`${testee.folder}/results`)].map(({ name }) => name).sort();
  const gone = async (index: number) =>
    await Deno.remove(`${testee.folder}/results/${files[index]}`);
  const archive = () => testee.post("/v1/jobs/archive", { results: [id] });
  for (const [index, left] of [[0, ["1", "2"]], [2, ["1"]]] as const) {
    await gone(index);
    const zip = unzipSync(await (await archive()).bytes());
    assert.deepEqual(Object.keys(zip).map((name) => name.at(-5)), left);
  }
  await gone(1);
  const refused = await archive();
  assert.equal(refused.status, 404);
  assert.match(
    (await refused.json()).error.message,
    /^Cannot archive the results: their files are gone/,
  );
});

Deno.test("GET /v1/jobs/{id}/events tells a job's place in the queue whenever that changes", async () => {
  await using testee = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const ids: string[] = [];
  for (const prompt of ["a", "b", "c"]) {
    ids.push((await start(testee, { prompt, num_inference_steps: 10 })).id);
  }
  const text = await (await testee.get(`/v1/jobs/${ids[2]}/events`)).text();
  const states = [...text.matchAll(/^event: status\ndata: (.*)$/gm)].map(([, data]) => {
    const { status, place } = JSON.parse(data!);
    return `${status} ${place}`;
  });
  assert.deepEqual(states, ["queued 2", "queued 1", "in_progress null", "completed null"]);
});
