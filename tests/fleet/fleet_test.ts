/** Servers and workers of a fleet, in one process, on a PostgreSQL of the test's own. */

import { strict as assert } from "node:assert";
import postgres from "postgres";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import { SCHEMA_VERSION } from "../../fleet/schema.ts";
import { startMember } from "../../fleet/mod.ts";
import type { RunningServer } from "../../server/start_options.ts";
import type { ServerSettings } from "../../server/settings.ts";
import { FakeEngine, type FakeOptions } from "../fakes/engine.ts";
import { openPool, until } from "../fakes/service.ts";
import { Cluster, noPostgres } from "./postgres.ts";

let cluster: Promise<Cluster> | undefined;

Deno.test.afterAll(async () => await (await cluster)?.[Symbol.asyncDispose]());

/** A fleet with a database and a folder of its own. */
class TestFleet implements AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  readonly lines: string[] = [];
  readonly #closing: (() => Promise<void>)[] = [];

  private constructor(url: string, folder: string) {
    this.url = url;
    this.folder = folder;
  }

  static async start(): Promise<TestFleet> {
    const url = await (await (cluster ??= Cluster.start())).database();
    return new TestFleet(url, await Deno.makeTempDir());
  }

  async front(settings: Partial<ServerSettings> = {}, maxQueue = 64): Promise<RunningServer> {
    const server = await startMember({ databaseUrl: this.url, role: "front" })({
      openEngine: () => Promise.reject(new Error("a front opens no model")),
      ...{ outputPath: this.folder, port: 0, maxQueue, ...settings },
      ...{ graceMs: 100, log: (line) => this.lines.push(`front: ${line}`) },
    });
    this.#closing.push(server.close);
    await server.ready;
    return server;
  }

  async worker(options: FakeOptions & { name?: string; gpus?: number } = {}) {
    const engine = new FakeEngine(options);
    const all = Array.from({ length: options.gpus ?? 0 }, () => new FakeEngine(options));
    const pool = all.length > 0 ? await openPool(all) : undefined;
    const name = options.name ?? "gradients";
    const worker = await startMember({ databaseUrl: this.url, role: "worker" })({
      ...{ outputPath: this.folder, graceMs: 100 },
      openEngine: () => Promise.resolve(pool?.engine ?? engine),
      ...(pool ? { cards: pool.cards } : {}),
      servedModelName: name,
      modelPath: `fake/${name}`,
      log: (line) => this.lines.push(`worker: ${line}`),
    });
    this.#closing.push(worker.close);
    await worker.ready;
    return { engine, ...worker };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#closing.reverse()) await close();
    await Deno.remove(this.folder, { recursive: true });
  }
}

async function post(server: RunningServer, path: string, body: unknown, headers = {}) {
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function get(server: RunningServer, path: string) {
  const response = await fetch(server.url + path);
  return { status: response.status, body: await response.json() };
}

const IMAGES = "/v1/images/generations";
const ASYNC = { prefer: "respond-async" };

/** A test that needs PostgreSQL. */
function test(title: string, fn: (fleet: TestFleet) => Promise<void>): void {
  Deno.test({
    name: noPostgres ? `${title}: ${noPostgres}` : title,
    ignore: noPostgres !== undefined,
    // The cluster is started by the first and outlives it.
    ...{ sanitizeResources: false, sanitizeOps: false },
    fn: async () => {
      await using fleet = await TestFleet.start();
      await fn(fleet);
    },
  });
}

test("a fleet answers like one server, from whichever server is asked", async (fleet) => {
  const [one, other] = [await fleet.front(), await fleet.front()];
  assert.equal((await get(one, "/health")).status, 503, "there is no worker");
  const refused = await post(one, IMAGES, { prompt: "a" });
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.get("retry-after"));
  const worker = await fleet.worker();
  await until(async () => (await get(other, "/health")).status === 200);
  await until(async () => (await get(one, "/health")).status === 200);
  const made = await post(one, IMAGES, { prompt: "a", seed: 3, output_format: "png", n: 2 });
  assert.equal(made.status, 200, JSON.stringify([made.body, fleet.lines]));
  assert.equal(made.body.data.length, 2);
  const bytes = Uint8Array.fromBase64(made.body.data[0].b64_json);
  const content = await fetch(`${other.url}/v1/images/${made.body.id}/content`);
  assert.deepEqual(await content.bytes(), bytes);
  assert.equal(worker.engine.requests[0]!.seed, 3);
  const asked = await post(one, IMAGES, { prompt: "b" }, ASYNC);
  assert.equal(asked.status, 202);
  const path = `/v1/jobs/${asked.body.id}`;
  await until(async () => (await get(other, path)).body.status === "completed");
  assert.equal((await get(one, "/v1/jobs")).body.data.length, 2);
  // Both servers delete outputs of one job at once.
  const several = await post(one, IMAGES, { prompt: "c", n: 4 });
  const deleted = await Promise.all([0, 1, 2, 3].map(async (index) => {
    const { url } = index % 2 ? one : other;
    const outputs = `${url}/v1/jobs/${several.body.id}/outputs/${index}`;
    const response = await fetch(outputs, { method: "DELETE" });
    return [response.status, (await response.json()).deleted];
  }));
  const expected = [[200, false], [200, false], [200, false], [200, true]];
  assert.deepEqual(deleted.toSorted((a, b) => Number(a[1]) - Number(b[1])), expected);
  assert.equal((await get(one, `/v1/jobs/${several.body.id}`)).status, 404);
  // Both servers delete the last output, or the whole job, at once.
  for (const end of ["/outputs/0", ""]) {
    const { body: { id } } = await post(one, IMAGES, { prompt: "d" });
    const answers = await Promise.all([one, other].map(async ({ url }) => {
      const response = await fetch(`${url}/v1/jobs/${id}${end}`, { method: "DELETE" });
      await response.body?.cancel();
      return response.status;
    }));
    assert.deepEqual(answers.toSorted(), [200, 404], end);
  }
});

test("a worker of a fleet with several GPUs works with all of them, and each is told of", async (fleet) => {
  const front = await fleet.front();
  await fleet.worker({ gpus: 2, stepMs: 100 });
  await until(async () => (await get(front, "/health")).status === 200);
  const made = [1, 2].map((seed) => post(front, IMAGES, { prompt: "a", seed }));
  const workers = async () => (await get(front, "/v1/workers")).body.data;
  assert.deepEqual((await workers()).map(({ gpu }: { gpu: number }) => gpu), [0, 1]);
  for (const { status } of await Promise.all(made)) assert.equal(status, 200);
  const done = (sum: number, one: { jobs_done: number }) => sum + one.jobs_done;
  await until(async () => (await workers()).reduce(done, 0) === 2);
});

test("a request with a key that races over two servers makes one job", async (fleet) => {
  const fronts = [await fleet.front(), await fleet.front()];
  const worker = await fleet.worker({ stepMs: 20 });
  for (const front of fronts) {
    await until(async () => (await get(front, "/health")).status === 200);
  }
  const ask = (index: number, prompt = "a") =>
    post(fronts[index % 2]!, IMAGES, { prompt }, { "idempotency-key": "one" });
  const made = await Promise.all([0, 1, 2, 3].map((index) => ask(index)));
  made.push(await ask(0));
  assert.deepEqual(made.map(({ status }) => status), [200, 200, 200, 200, 200]);
  assert.equal(new Set(made.map(({ body }) => body.data[0].b64_json)).size, 1);
  assert.equal(worker.engine.requests.length, 1);
  assert.equal((await ask(1, "b")).status, 422);
});

test("a stream of a fleet has each image as soon as it is there", async (fleet) => {
  const front = await fleet.front();
  const worker = await fleet.worker({ stepMs: 50 });
  await until(async () => (await get(front, "/health")).status === 200);
  const answer = await fetch(front.url + IMAGES, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "a", n: 3, stream: true, num_inference_steps: 8 }),
  });
  const begun: number[] = [];
  let heard = "";
  for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) {
    heard += text;
    const count = heard.split("event: image_generation.completed").length - 1;
    while (begun.length < count) begun.push(worker.engine.requests.length);
  }
  assert.equal(begun.length, 3, heard.slice(0, 500));
  assert.ok(begun[0]! < 3, `the first came when ${begun[0]} of 3 were begun`);
});

test("a job that not every worker can hold goes to those that can", async (fleet) => {
  const front = await fleet.front();
  const small = await fleet.worker({ deviceBytes: 100 * 100, stepMs: 5 });
  await until(async () => (await get(front, "/health")).status === 200);
  const ask = (side: number) =>
    post(front, IMAGES, { prompt: "a", size: `${side}x${side}`, response_format: "url" });
  const alone = await ask(128);
  assert.equal(alone.status, 400, JSON.stringify(alone.body));
  assert.match(alone.body.error.message, /needs 16384 bytes, the device has 10000/);
  const large = await fleet.worker({ deviceBytes: 200 * 200, stepMs: 5 });
  await until(async () => (await ask(128)).status === 200);
  small.engine.requests.length = large.engine.requests.length = 0;
  const made = await Promise.all([128, 64, 128, 64, 128, 64].map(ask));
  assert.deepEqual(made.map(({ status }) => status), [200, 200, 200, 200, 200, 200]);
  const sides = ({ requests }: FakeEngine) => new Set(requests.map(({ width }) => width));
  assert.deepEqual([...sides(small.engine)].filter((side) => side > 64), []);
  assert.ok(sides(large.engine).has(128));
  assert.deepEqual(fleet.lines.filter((line) => line.includes("left to other workers")), []);
  const none = await ask(256);
  assert.deepEqual([none.status, none.body.error.param], [400, "size"]);
  assert.match(none.body.error.message, /needs 65536 bytes, the device has 40000/);
});

test("members of a fleet may join at the same time", async (fleet) => {
  const [front] = await Promise.all([fleet.front(), fleet.front(), fleet.worker(), fleet.worker()]);
  await until(async () => (await get(front, "/health")).status === 200);
  assert.equal((await post(front, IMAGES, { prompt: "a" })).status, 200, fleet.lines.join("\n"));
});

test("a job is watched and cancelled from any server, and brings its files", async (fleet) => {
  const info = { supportedTasks: ["T2I", "TI2I"], defaultTask: "T2I" } as const;
  await fleet.worker({ stepMs: 50, info: { ...info, maxImages: 1 } });
  const [one, other] = [await fleet.front(), await fleet.front()];
  const form = new FormData();
  form.set("prompt", "blue");
  form.set("num_inference_steps", "40");
  form.set("partial_images", "3");
  form.set("image", new Blob([await encodeOwn()], { type: "image/png" }), "in.png");
  const asked = await fetch(`${one.url}/v1/images/edits`, {
    ...{ method: "POST", headers: ASYNC, body: form },
  });
  const { id } = await asked.json();
  assert.equal(asked.status, 202, fleet.lines.join("\n"));
  const events = await fetch(`${other.url}/v1/jobs/${id}/events`);
  let heard = "";
  for await (const text of events.body!.pipeThrough(new TextDecoderStream())) {
    heard += text;
    if (/event: preview/.test(heard) && /event: progress/.test(heard)) break;
  }
  assert.match(heard, /"stage":"denoise"/);
  const ended = await post(other, `/v1/jobs/${id}/cancel`, {});
  assert.equal(ended.body.status, "cancelled");
  await until(async () => (await get(one, "/v1/jobs")).body.running === 0);
});

test("models, limits and LoRAs are those of the workers", async (fleet) => {
  const [one, other] = [await fleet.front({}, 0), await fleet.front({}, 0)];
  await fleet.worker({ name: "small", stepMs: 100, info: { loraTargets: [] } });
  await fleet.worker({ name: "large", info: { maxPixels: 64 * 64 } });
  const names = async (server: RunningServer) =>
    (await get(server, "/v1/models")).body.data?.map((model: { id: string }) => model.id);
  for (const server of [one, other]) {
    await until(async () => (await names(server))?.join() === "small,large");
  }
  const refused = await post(one, IMAGES, { prompt: "a", model: "huge" });
  assert.deepEqual([refused.status, refused.body.error.code], [404, "model_not_found"]);
  const large = await post(one, IMAGES, { prompt: "a", model: "large", size: "128x128" });
  assert.equal(large.status, 400, JSON.stringify(large.body));
  const set = await post(other, "/v1/set_lora", { lora_nickname: "a", lora_path: "none" });
  assert.match(set.body.detail, /Lora is not enabled/);
  const statuses = await Promise.all(
    [1, 2, 3, 4].map(async () => {
      const { status, headers } = await post(one, IMAGES, { prompt: "a", model: "small" }, ASYNC);
      return status === 202 || headers.has("retry-after") ? status : 0;
    }),
  );
  statuses.push((await post(one, IMAGES, { prompt: "a", model: "small" }, ASYNC)).status);
  assert.ok(statuses.includes(202) && statuses.includes(429), statuses.join());
});

test("a worker that leaves gives back what it cannot finish", async (fleet) => {
  const front = await fleet.front();
  const first = await fleet.worker({ stepMs: 200 });
  await until(async () => (await get(front, "/health")).status === 200);
  const body = { prompt: "a", seed: 5, num_inference_steps: 20 };
  const { id } = (await post(front, IMAGES, body, ASYNC)).body;
  const status = async () => (await get(front, `/v1/jobs/${id}`)).body.status;
  await until(async () => await status() === "in_progress");
  await first.close();
  assert.equal(await status(), "queued");
  const second = await fleet.worker();
  await until(async () => await status() === "completed");
  assert.deepEqual(second.engine.requests.map(({ seed }) => seed), [5]);
});

test("a server shows jobs as it saw them last while the database is away, and as they are after it", async (fleet) => {
  const front = await fleet.front({ enableMetrics: true });
  await fleet.worker({ stepMs: 100 });
  await until(async () => (await get(front, "/health")).status === 200);
  const ask = async (num_inference_steps: number) => {
    const { body } = await post(front, IMAGES, { prompt: "a", num_inference_steps }, ASYNC);
    return `/v1/jobs/${body.id}`;
  };
  const [short, long] = [await ask(1), await ask(15)];
  const status = async (path: string) => (await get(front, path)).body.status;
  await until(async () => await status(short) === "completed");
  await until(async () => await status(long) === "in_progress");
  const { body: { id } } = await get(front, short);
  await (await cluster)!.stop();
  let slowest = 0;
  for (const end = performance.now() + 1000; performance.now() < end;) {
    const since = performance.now();
    assert.equal(await status(short), "completed");
    assert.equal(await status(long), "in_progress");
    slowest = Math.max(slowest, performance.now() - since);
  }
  assert.ok(slowest < 1000, `two answers took ${slowest} ms`);
  const content = await fetch(`${front.url}/v1/images/${id}/content`);
  assert.equal(content.status, 200);
  await content.body?.cancel();
  const since = performance.now();
  const unknown = await fetch(`${front.url}/v1/jobs/img_1`);
  assert.equal(unknown.status, 503, await unknown.text());
  assert.ok(unknown.headers.has("retry-after"));
  assert.ok(performance.now() - since < 4000, `it took ${performance.now() - since} ms`);
  const metrics = await (await fetch(`${front.url}/metrics`)).text();
  assert.match(metrics, /^denoise_queue_oldest_age_seconds nan$/im);
  const refused = await post(front, IMAGES, { prompt: "a" }, ASYNC);
  assert.deepEqual([refused.status, refused.body.error.code], [503, "records_busy"]);
  await (await cluster)!.run();
  await until(async () => await status(long) === "completed");
  assert.equal(await status("/v1/jobs/img_1"), undefined);
});

test("a worker that keeps results elsewhere than the others is told so before its model is loaded", async (fleet) => {
  await fleet.front();
  const folder = await Deno.makeTempDir();
  const worker = await startMember({ databaseUrl: fleet.url, role: "worker" })({
    openEngine: (_, signal) =>
      new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
    ...{ outputPath: folder, graceMs: 100, log: () => {} },
  });
  try {
    await assert.rejects(worker.ready, /its members keep results in a folder that all of them see/);
  } finally {
    await worker.close();
    await Deno.remove(folder, { recursive: true });
  }
});

test("tables of a newer version are used where it allows that", async (fleet) => {
  const sql = postgres(fleet.url, { max: 1, onnotice: () => {} });
  try {
    await fleet.front();
    await sql`ALTER TABLE denoise_jobs ADD COLUMN new_in_the_next text`;
    await sql`UPDATE denoise_schema SET version = ${SCHEMA_VERSION + 1}`;
    await fleet.worker();
    const front = await fleet.front();
    await until(async () => (await get(front, "/health")).status === 200);
    assert.equal((await post(front, IMAGES, { prompt: "a" })).status, 200);
    await sql`UPDATE denoise_schema SET least = ${SCHEMA_VERSION + 1}`;
    await assert.rejects(fleet.front(), /its tables are of version \d, and this program knows/);
  } finally {
    await sql.end();
  }
});

Deno.test("a server of a fleet without its database answers 503, and when to come back", async () => {
  const folder = await Deno.makeTempDir();
  const server = await startMember({
    databaseUrl: "postgres://denoise@127.0.0.1:1/denoise",
    role: "front",
  })({
    openEngine: () => Promise.reject(new Error("a front opens no model")),
    ...{ outputPath: folder, port: 0, graceMs: 0 },
  });
  for (const path of ["/health", "/v1/jobs", "/v1/jobs/img_1", "/v1/models"]) {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 503, `${path}: ${await response.text()}`);
    assert.ok(response.headers.has("retry-after"), path);
  }
  await server.close();
  await Deno.remove(folder, { recursive: true });
});

async function encodeOwn(): Promise<Uint8Array<ArrayBuffer>> {
  const image = { width: 64, height: 48, data: new Uint8Array(64 * 48 * 3) };
  return (await encodeOwnImage(image, { format: "png" })).bytes;
}

test("a client that floods a fleet leaves room for others", async (fleet) => {
  const front = await fleet.front({ apiKeys: ["a", "b"] }, 24);
  await fleet.worker({ stepMs: 1_500 });
  const ask = (key: string) =>
    post(front, IMAGES, { prompt: "a" }, { ...ASYNC, authorization: `Bearer ${key}` });
  await until(async () => (await ask("a")).status === 202);
  let taken = 1;
  for (; taken < 30; taken++) {
    const { status, headers } = await ask("a");
    if (status === 202) continue;
    assert.equal(status, 429);
    assert.ok(headers.get("retry-after"));
    break;
  }
  assert.ok(taken >= 12 && taken <= 14, `${taken} of 24 places`);
  assert.equal((await ask("b")).status, 202);
});
