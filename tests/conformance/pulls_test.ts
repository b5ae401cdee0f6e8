/** The catalogue, pulls and deleting of models. */
import { strict as assert } from "node:assert";
import { FakeEngine } from "../fakes/engine.ts";
import { FakeHub, type FakeHubBehaviour } from "../fakes/hub.ts";
import type { ServerSettings } from "../../server/settings.ts";
import { isErrorBody, type TestService, testService, until } from "../fakes/service.ts";

const NAME = "z-image-turbo";
const WEIGHTS = "w".repeat(400_000);
const HUB = {
  "Tongyi-MAI/Z-Image-Turbo": {
    "model_index.json": JSON.stringify({
      _class_name: "ZImagePipeline",
      transformer: ["diffusers", "ZImageTransformer2DModel"],
      vae: ["diffusers", "AutoencoderKL"],
    }),
    "transformer/diffusion_pytorch_model.safetensors": "transformer",
    "vae/diffusion_pytorch_model.safetensors": "vae",
  },
  "leejet/Z-Image-Turbo-GGUF": { "z_image_turbo-Q6_K.gguf": WEIGHTS },
  "Comfy-Org/Real-ESRGAN_repackaged": { "RealESRGAN_x4plus.safetensors": "upscaler" },
  "org/lora": { "adapter.safetensors": "a", "other.safetensors": "b" },
};
const HERE = { remoteAddress: "127.0.0.1" };

interface Server {
  readonly service: TestService;
  readonly hub: FakeHub;
  /** Sends a request as a program of this machine does; of a body, by POST. */
  ask(
    path: string,
    init?: RequestInit,
    env?: { remoteAddress?: string },
  ): Promise<Response>;
  pull(model: string): Promise<{ id: string; status: string }>;
}

async function withServer(
  use: (server: Server) => Promise<void>,
  settings: Parameters<typeof testService>[0] & object = {},
  behaviour: FakeHubBehaviour = {},
): Promise<void> {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub(HUB, behaviour);
    await using service = await testService({
      engine: new FakeEngine({ info: { deviceBytes: 8e9 } }),
      hub: { endpoint: hub.endpoint, isOffline: false, cacheFolder },
      ...settings,
    });
    const ask: Server["ask"] = async (path, init, env = HERE) =>
      await service.app.request(path, init?.body ? { method: "POST", ...init } : init, env);
    const pull = async (model: string) => {
      const response = await ask("/v1/pulls", { body: JSON.stringify({ model }) });
      assert.equal(response.status, 200, await response.clone().text());
      return await response.json();
    };
    await use({ service, hub, ask, pull });
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
}

// deno-lint-ignore no-explicit-any -- answers are what is tested
async function entryOf({ ask }: Server, id = NAME): Promise<any> {
  const { data } = await (await ask("/v1/catalogue")).json();
  return data.find((entry: { id: string }) => entry.id === id);
}

Deno.test("GET /v1/catalogue tells what fits, what it costs to fetch and which one to begin with", () =>
  withServer(async (server) => {
    const answer = await (await server.ask("/v1/catalogue")).json();
    const { data, parts: _, ...rest } = answer;
    assert.ok(rest.free_bytes > 0);
    assert.deepEqual({ ...rest, free_bytes: 1 }, {
      ...{ object: "list", can_pull: true, has_token: false, device_bytes: 8e9, free_bytes: 1 },
      is_software: null,
    });
    const first = data.find((entry: { first_choice: boolean }) => entry.first_choice);
    const { good_for: goodFor, download_bytes: bytes, ...told } = first;
    assert.match(goodFor, /photos/);
    assert.ok(bytes > 12e9 && bytes < 15e9, `${bytes}`);
    assert.deepEqual(told, {
      ...{ id: NAME, object: "catalogue.model", title: "Z-Image-Turbo", family: "Z-Image" },
      ...{ makes: "images", tasks: ["T2I", "TI2I"], licence: "Apache-2.0", gated: false },
      ...{ non_commercial: false, url: `${server.hub.endpoint}/Tongyi-MAI/Z-Image-Turbo` },
      ...{ state: "absent", precision: "q6_k", cached_bytes: 0, fits: true, first_choice: true },
      measured: null,
      precisions: ["bf16", "q8_0", "q6_k", "q5_0", "q4_k", "q3_k", "q2_k"],
    });
    const dev = await entryOf(server, "flux.1-dev");
    assert.deepEqual([dev.gated, dev.non_commercial], [true, true]);
    assert.equal((await entryOf(server, "qwen-image")).fits, false);
    const { store } = server.service;
    await store.insert({
      id: "img_a",
      kind: "image",
      request: {},
      summary: { model: NAME, width: 64, height: 48 },
    });
    await store.update("img_a", { status: "completed", result: { seconds: 9, files: [{}, {}] } });
    assert.deepEqual((await entryOf(server)).measured, { seconds: 4.5, size: "64x48" });
  }));

Deno.test("POST /v1/pulls fetches a model, tells of it by events, goes on after a stop, and DELETE removes it", () =>
  withServer(
    async (server) => {
      const { ask, pull, hub } = server;
      const begun = await ask("/v1/pulls", {
        body: JSON.stringify({ model: "Z-Image-Turbo", stream: true }),
      });
      assert.equal(begun.headers.get("content-type"), "text/event-stream");
      const list = async () => (await (await ask("/v1/pulls")).json()).data;
      await until(async () => (await list())[0]?.completed_bytes > 50_000);
      const { id } = (await list())[0];
      assert.equal((await pull(NAME)).id, id, "it is joined");
      const stopped = await (await ask(`/v1/pulls/${id}/cancel`, { method: "POST" })).json();
      assert.equal(stopped.status, "stopped");
      const events = (await begun.text()).matchAll(/^event: pull\ndata: (.*)$/gm);
      const told = [...events].map(([, data]) => JSON.parse(data!));
      assert.deepEqual([told[0].status, told.at(-1).status], ["queued", "stopped"]);
      const running = told.findLast(({ status }) => status === "running");
      assert.ok(running.bytes_per_second > 0 && running.eta_s >= 0 && running.total_bytes > 12e9);
      assert.match(running.message, /^Fetching 1 file of leejet/);
      assert.equal((await entryOf(server)).state, "partial");

      hub.behaviour.pace = 1e9;
      await pull(NAME);
      const ended = await (await ask(`/v1/pulls/${id}/events`)).text();
      assert.equal(JSON.parse(ended.trim().split("\ndata: ").at(-1)!).status, "completed");
      const ranges = hub.seen.flatMap(({ range }) => range ?? []);
      assert.equal(ranges.length, 1, "it went on where it stopped");
      const { state, precision, cached_bytes: bytes } = await entryOf(server);
      assert.deepEqual([state, precision], ["present", "q6_k"]);
      const last = await (await ask(`/v1/pulls/${id}`)).json();
      assert.deepEqual([last.completed_bytes, last.total_bytes], [bytes, bytes]);

      const removed = await (await ask(`/v1/models/${NAME}`, { method: "DELETE" })).json();
      assert.deepEqual(removed, {
        ...{ id: NAME, object: "model", deleted: true, freed_bytes: bytes },
      });
      assert.equal((await entryOf(server)).state, "absent");
      assert.equal((await ask(`/v1/models/${NAME}`, { method: "DELETE" })).status, 404);
    },
    {},
    { pace: 400_000 },
  ));

Deno.test("pulls that fail say why", () =>
  withServer(async ({ ask, pull, hub }) => {
    const { id } = await pull("org/lora");
    const missing = await pull("org/none");
    hub.behaviour.token = "secret";
    const gated = await pull("flux.1-dev:q8_0");
    const why = async ({ id }: { id: string }) => {
      await (await ask(`/v1/pulls/${id}/events`)).text();
      return (await (await ask(`/v1/pulls/${id}`)).json()).error?.message;
    };
    const last = await why(gated);
    assert.match(last, /set HF_TOKEN where the repository is gated/);
    assert.match(await why({ id }), /^Cannot fetch org\/lora: (?:it holds 2 weight files|the hub)/);
    assert.match(await why(missing), /^Cannot fetch org\/none: the hub/);
  }));

Deno.test("pulls and deleting are for the owner: with the key, or without one on this machine", async () => {
  const body = JSON.stringify({ model: "org/none" });
  const cases: [string, Partial<ServerSettings>, RequestInit, string | undefined, number][] = [
    ["this machine", {}, {}, "::ffff:127.0.0.1", 200],
    ["a page of this machine", {}, { headers: { origin: "http://localhost:1" } }, "::1", 200],
    ["a proxy", {}, { headers: { "x-forwarded-for": "9.9.9.9" } }, "127.0.0.1", 403],
    ["another machine", {}, {}, "192.168.1.9", 403],
    ["nobody knows where", {}, {}, undefined, 403],
    [
      "--cors-origin *",
      { corsOrigins: ["*"] },
      { headers: { origin: "https://a.example" } },
      "::1",
      403,
    ],
    ["--no-pull", { pulls: false }, {}, "127.0.0.1", 403],
    ["a key", { apiKeys: ["k"] }, { headers: { authorization: "Bearer k" } }, "9.9.9.9", 200],
    ["no key", { apiKeys: ["k"] }, {}, "127.0.0.1", 401],
  ];
  for (const [who, settings, init, remoteAddress, status] of cases) {
    await withServer(async ({ ask }) => {
      const env = remoteAddress === undefined ? {} : { remoteAddress };
      const response = await ask("/v1/pulls", { ...init, body }, env);
      assert.equal(response.status, status, who);
      if (status !== 200) assert.ok(isErrorBody(await response.json()));
      const removed = await ask("/v1/models/org/none", { ...init, method: "DELETE" }, env);
      assert.equal(removed.status, status === 200 ? 404 : status, who);
    }, { settings });
  }
});

Deno.test("POST /v1/pulls refuses what is no model, and DELETE what the server was started with", () =>
  withServer(async ({ ask }) => {
    const cases: [unknown, number, RegExp][] = [
      [{}, 422, /model/],
      [{ model: "" }, 422, /model/],
      [{ model: "x".repeat(501) }, 422, /model/],
      [{ model: "nope" }, 400, /neither a name of GET \/v1\/catalogue nor a hub id/],
      [{ model: "../etc" }, 400, /neither a name/],
      [{ model: "z-image-turbo:q9" }, 400, /known in bf16, q8_0/],
    ];
    for (const [body, status, message] of cases) {
      const response = await ask("/v1/pulls", { body: JSON.stringify(body) });
      const answer = await response.json();
      assert.equal(response.status, status, JSON.stringify(answer));
      assert.ok(isErrorBody(answer));
      assert.match(answer.error.message, message);
    }
    const own = await ask("/v1/models/bundled", { method: "DELETE" });
    assert.match((await own.json()).error.message, /bundled: it is a part of this program$/);
    const response = await ask("/v1/models/org/served", { method: "DELETE" });
    assert.deepEqual([response.status, (await response.json()).error.code], [409, "model_in_use"]);
    assert.equal((await ask("/v1/pulls/pull_none")).status, 404);
  }, { settings: { modelPath: "org/served" } }));

Deno.test("POST /v1/pulls fetches parts of models by their names, and the catalogue says which are here", () =>
  withServer(async ({ ask, pull }) => {
    const stateOf = async (wanted: string) => {
      const { parts } = await (await ask("/v1/catalogue")).json();
      return parts.find(({ id }: { id: string }) => id === wanted);
    };
    const before = await stateOf("realesrgan_x4plus");
    assert.deepEqual([before.part, before.automatic, before.state], ["upscaler", true, "absent"]);
    const { id } = await pull("RealESRGAN_x4plus");
    await until(async () => (await (await ask(`/v1/pulls/${id}`)).json()).status === "completed");
    assert.equal((await stateOf("realesrgan_x4plus")).state, "present");
    const removed = await ask("/v1/models/realesrgan_x4plus", { method: "DELETE" });
    assert.equal(removed.status, 200, await removed.text());
    assert.equal((await stateOf("realesrgan_x4plus")).state, "absent");
  }));

Deno.test("GET /v1/catalogue says why there is none where the hub's cache has no place", () =>
  withServer(async ({ ask }) => {
    const response = await ask("/v1/catalogue");
    const { error } = await response.json();
    assert.deepEqual([response.status, error.code, error.message], [
      503,
      "hub_unavailable",
      "Cannot x",
    ]);
  }, { hub: () => Promise.reject(new Error("Cannot x")) }));
