/** Servers and workers of a fleet, in one process, on a PostgreSQL of the test's own. */

import { strict as assert } from "node:assert";
import { type RunningServer, startServer } from "../../server/serve.ts";
import { FakeEngine, type FakeOptions } from "../fakes/engine.ts";
import { until } from "../fakes/service.ts";
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

  async front(settings: { apiKeys?: string[] } = {}, maxQueue = 64): Promise<RunningServer> {
    const server = await startServer({
      openEngine: () => Promise.reject(new Error("a front opens no model")),
      fleet: { databaseUrl: this.url, role: "front" },
      ...{ outputPath: this.folder, port: 0, maxQueue, settings },
      ...{ graceMs: 100, log: (line) => this.lines.push(`front: ${line}`) },
    });
    this.#closing.push(server.close);
    await server.ready;
    return server;
  }

  async worker(options: FakeOptions & { name?: string } = {}) {
    const engine = new FakeEngine(options);
    const name = options.name ?? "gradients";
    const worker = await startServer({
      fleet: { databaseUrl: this.url, role: "worker" },
      ...{ outputPath: this.folder, graceMs: 100 },
      openEngine: () => Promise.resolve(engine),
      settings: { servedModelName: name, modelPath: `fake/${name}` },
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
});

test("members of a fleet may join at the same time", async (fleet) => {
  const [front] = await Promise.all([fleet.front(), fleet.front(), fleet.worker(), fleet.worker()]);
  await until(async () => (await get(front, "/health")).status === 200);
  assert.equal((await post(front, IMAGES, { prompt: "a" })).status, 200, fleet.lines.join("\n"));
});
