/** Requests with an `Idempotency-Key`, sent again. */

import { strict as assert } from "node:assert";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { keptInputs, testService, until } from "../fakes/service.ts";

const IMAGES = "/v1/images/generations";
const EDITS = "/v1/images/edits";
const VIDEOS = "/v1/videos";

const keyed = (key: string, headers: Record<string, string> = {}) => ({
  headers: { "idempotency-key": key, ...headers },
});

async function answerOf(response: Response | Promise<Response>) {
  const { status, headers } = await response;
  const body = await (await response).json();
  return { status, body, isReplayed: headers.get("idempotent-replayed") === "true" };
}

/** Images that a form can bring; two with different pixels. */
async function image(shade: number): Promise<Blob> {
  const data = new Uint8Array(64 * 48 * 3).fill(shade);
  const { bytes } = await encodeOwnImage({ width: 64, height: 48, data }, { format: "png" });
  return new Blob([bytes], { type: "image/png" });
}

const EDITOR = { supportedTasks: ["T2I", "TI2I", "T2V", "I2V"], maxImages: 1 } as const;

Deno.test("a request that is sent again makes one job and has its answer", async () => {
  await using service = await testService();
  const first = await answerOf(
    service.post(IMAGES, { prompt: "a", n: 2, output_format: "png" }, keyed("one")),
  );
  assert.deepEqual([first.status, first.isReplayed], [200, false]);
  // The order of fields does not count, and quotes around a key are those of the draft.
  const again = await answerOf(
    service.post(IMAGES, '{"output_format":"png", "n":2, "prompt":"a"}', keyed('"one"')),
  );
  assert.deepEqual([again.status, again.isReplayed], [200, true]);
  assert.equal(again.body.id, first.body.id);
  assert.deepEqual(again.body.data, first.body.data);
  assert.equal(service.engine.requests.length, 2);
  const asked = await answerOf(
    service.post(
      IMAGES,
      { prompt: "a", n: 2, output_format: "png" },
      keyed("one", { prefer: "respond-async" }),
    ),
  );
  assert.deepEqual([asked.status, asked.body.id], [202, first.body.id]);
  const other = await answerOf(service.post(IMAGES, { prompt: "b" }, keyed("one")));
  assert.deepEqual([other.status, other.body.error.code], [422, "idempotency_key_reused"]);
  const elsewhere = await answerOf(service.post(VIDEOS, { prompt: "a" }, keyed("one")));
  assert.equal(elsewhere.status, 422);
  const next = await answerOf(service.post(IMAGES, { prompt: "b" }, keyed("two")));
  assert.deepEqual([next.status, next.isReplayed], [200, false]);
});

Deno.test("requests with one key that race make one job, and each client has its own keys", async () => {
  const engine = new FakeEngine({ stepMs: 5 });
  await using service = await testService({ engine, settings: { apiKeys: ["x", "y"] } });
  const ask = (client: string) =>
    answerOf(
      service.post(IMAGES, { prompt: "a" }, keyed("one", { authorization: `Bearer ${client}` })),
    );
  const answers = await Promise.all([ask("x"), ask("x"), ask("x"), ask("y")]);
  assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200, 200]);
  const ids = answers.map(({ body }) => body.id);
  assert.equal(new Set(ids.slice(0, 3)).size, 1);
  assert.equal(new Set(ids).size, 2);
  assert.equal(engine.requests.length, 2);
});

Deno.test("a job with a key goes on when its client leaves, for the one that comes back", async () => {
  await using service = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const leaving = new AbortController();
  const left = service.post(IMAGES, { prompt: "a", num_inference_steps: 50 }, {
    ...keyed("one"),
    signal: leaving.signal,
  });
  await until(() => service.queue.running.length === 1);
  leaving.abort();
  await left.then((answer) => answer.body?.cancel(), () => {});
  const { status, isReplayed } = await answerOf(
    service.post(IMAGES, { prompt: "a", num_inference_steps: 50 }, keyed("one")),
  );
  assert.deepEqual([status, isReplayed], [200, true]);
  assert.deepEqual([service.engine.requests.length, service.engine.aborted], [1, 0]);
});

Deno.test("a job that failed or was cancelled leaves its key to the next request", async () => {
  const engine = new FakeEngine({ stepMs: 20, failure: new Error("a fault") });
  await using service = await testService({ engine });
  const statuses = [];
  for (let k = 0; k < 2; k++) {
    const { status, isReplayed } = await answerOf(
      service.post(IMAGES, { prompt: "a" }, keyed("one")),
    );
    statuses.push([status, isReplayed]);
  }
  assert.deepEqual(statuses, [[500, false], [500, false]]);
});

Deno.test("a stream that is asked for again has every image", async () => {
  await using service = await testService();
  const ask = async () => {
    const body = { prompt: "a", n: 2, stream: true };
    const text = await (await service.post(IMAGES, body, keyed("one"))).text();
    const data = text.split("\n").filter((line) => line.startsWith("data: "));
    return data.map((line) => JSON.parse(line.slice(6)).b64_json).sort();
  };
  const first = await ask();
  assert.equal(first.length, 2);
  assert.deepEqual(await ask(), first);
  assert.equal(service.engine.requests.length, 2);
});

Deno.test("a form that is sent again is known by its fields and the bytes of its files", async () => {
  await using service = await testService({ engine: new FakeEngine({ info: EDITOR }) });
  const send = async (path: string, field: string, shade: number) => {
    const form = new FormData();
    form.set("prompt", "a");
    form.set(field, await image(shade), "in.png");
    return answerOf(service.get(path, { method: "POST", body: form, ...keyed(path) }));
  };
  for (const [path, field] of [[EDITS, "image"], [VIDEOS, "input_reference"]] as const) {
    const first = await send(path, field, 10);
    assert.equal(first.status, 200, JSON.stringify(first.body));
    const again = await send(path, field, 10);
    assert.deepEqual([again.isReplayed, again.body.id], [true, first.body.id]);
    assert.equal((await send(path, field, 20)).status, 422);
  }
  await until(() => keptInputs(service).length === 0);
});

Deno.test("WebUI's routes know a request that is sent again, too", async () => {
  await using service = await testService();
  const ask = () => answerOf(service.post("/sdapi/v1/txt2img", { prompt: "a" }, keyed("one")));
  const [first, again] = [await ask(), await ask()];
  assert.deepEqual([first.isReplayed, again.isReplayed], [false, true]);
  const shown = ({ images, info }: { images: string[]; info: string }) => {
    const { job_timestamp: _, ...told } = JSON.parse(info);
    return [images, told];
  };
  assert.deepEqual(shown(again.body), shown(first.body));
});

Deno.test("a request that is sent again has the results that are left, each with its own seed, prompt and link", async () => {
  await using service = await testService();
  const body = { prompt: "a {red|green|blue} fox", wildcards: true, n: 3, seed: [9, 1, 4] };
  const ask = () => answerOf(service.post(IMAGES, body, keyed("one")));
  const first = await ask();
  const { id, data } = first.body;
  const remove = async (index: number) => {
    const path = `/v1/jobs/${id}/outputs/${index}`;
    await (await service.get(path, { method: "DELETE" })).body?.cancel();
  };
  await remove(0);
  const again = await ask();
  assert.deepEqual([again.status, again.isReplayed], [200, true]);
  assert.deepEqual(again.body.data, data.slice(1));
  const content = await service.get(`/v1/images/${id}/content`);
  assert.equal((await content.bytes()).toBase64(), data[1].b64_json);
  await remove(1);
  assert.deepEqual((await ask()).body.data, data.slice(2));
  // A server that dies while it deletes a job may leave a record without results.
  const { result } = (await service.store.get(id))!;
  await service.store.update(id, { result: { ...result as object, deleted: [0, 1, 2] } });
  const { status, body: refused } = await ask();
  assert.deepEqual([status, refused.error.code], [409, "conflict"]);
  assert.equal((await service.get(`/v1/images/${id}/content`)).status, 404);
});

Deno.test("a stream and WebUI's routes that are asked again have what is left", async () => {
  await using service = await testService();
  const removeFirst = async (id: string) => {
    const path = `/v1/jobs/${id}/outputs/0`;
    await (await service.get(path, { method: "DELETE" })).body?.cancel();
  };
  const streamed = { prompt: "a", n: 2, seed: 5, stream: true };
  const stream = async () => await (await service.post(IMAGES, streamed, keyed("stream"))).text();
  const seedsIn = (text: string) => [...text.matchAll(/"seed":(\d+)/g)].map(([, seed]) => seed);
  assert.deepEqual(seedsIn(await stream()), ["5", "6"]);
  await removeFirst((await service.store.list())[0]!.id);
  assert.deepEqual(seedsIn(await stream()), ["6"]);
  const webui = { prompt: "a", batch_size: 2, seed: 5 };
  const ask = () => answerOf(service.post("/sdapi/v1/txt2img", webui, keyed("webui")));
  const { body: { images } } = await ask();
  await removeFirst((await service.store.list())[0]!.id);
  const { body } = await ask();
  assert.deepEqual([body.images, JSON.parse(body.info).all_seeds], [images.slice(1), [6]]);
});

Deno.test("Idempotency-Key is refused where it is empty, too long, or nothing is kept", async () => {
  await using service = await testService();
  for (const key of ["", '""', "k".repeat(256)]) {
    const { status, body } = await answerOf(service.post(IMAGES, { prompt: "a" }, keyed(key)));
    assert.deepEqual([status, body.error.param], [400, "Idempotency-Key"], key);
  }
  await using keeping = await testService({ keep: false });
  const { status, body } = await answerOf(keeping.post(IMAGES, { prompt: "a" }, keyed("one")));
  assert.deepEqual([status, body.error.code], [400, "no_storage"]);
});
