import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import OpenAI from "openai";
import { decodeImage } from "../../media/decode.ts";
import { startServer } from "../../server/serve.ts";
import type { StartOptions } from "../../server/start_options.ts";
import { FakeEngine } from "../fakes/engine.ts";

/** A server with a key on a free port, and the official client pointed at it. */
async function connect(options: Partial<StartOptions> = {}) {
  const folder = await Deno.makeTempDir();
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine()),
    port: 0,
    outputPath: folder,
    ...options,
    servedModelName: "org/gradients",
    apiKeys: ["sk-test"],
  });
  await server.ready;
  const client = (apiKey: string) =>
    new OpenAI({ apiKey, baseURL: `${server.url}/v1`, maxRetries: 0 });
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      await server.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

Deno.test("the official client lists and retrieves the model", async () => {
  await using service = await connect();
  const client = service.client("sk-test");
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["org/gradients"]);
  const model = await client.models.retrieve("org/gradients");
  assert.equal(model.owned_by, "denoise");
});

Deno.test("the official client generates files and links", async () => {
  await using service = await connect();
  const client = service.client("sk-test");
  const { data } = await client.images.generate({
    model: "org/gradients",
    prompt: "a red circle",
    n: 2,
    response_format: "b64_json",
    output_format: "png",
    // The service's own fields travel beside the generic ones.
    ...{ size: "96x64", seed: 3, num_inference_steps: 2 } as object,
  });
  assert.equal(data!.length, 2);
  const { width, height } = await decodeImage(Buffer.from(data![1]!.b64_json!, "base64"));
  assert.deepEqual([width, height], [96, 64]);

  const linked = await client.images.generate({ model: "org/gradients", prompt: "a" });
  const response = await fetch(service.server.url + linked.data![0]!.url!, {
    headers: { authorization: "Bearer sk-test" },
  });
  assert.equal(response.headers.get("content-type"), "image/jpeg");
  await decodeImage(await response.bytes());
});

Deno.test("the official client streams", async () => {
  await using service = await connect();
  const stream = await service.client("sk-test").images.generate({
    model: "org/gradients",
    prompt: "a",
    stream: true,
  });
  const types: string[] = [];
  for await (const event of stream) types.push(event.type);
  assert.deepEqual(types, ["image_generation.completed"]);
});

Deno.test("the official client sees typed errors with message, param and code", async () => {
  await using service = await connect();
  const client = service.client("sk-test");
  await assert.rejects(
    client.images.generate({ prompt: "a", n: 11 }),
    (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "n");
      assert.equal(error.code, "invalid_value");
      assert.match(error.message, /n must be between 1 and 10, got 11/);
      return true;
    },
  );
  await assert.rejects(client.models.retrieve("other"), OpenAI.NotFoundError);
  await assert.rejects(service.client("wrong").models.list(), OpenAI.AuthenticationError);
});

Deno.test("the official client's abort stops the work on the server", async () => {
  const engine = new FakeEngine({ stepMs: 30 });
  await using service = await connect({ openEngine: () => Promise.resolve(engine) });
  const controller = new AbortController();
  const answer = service.client("sk-test").images.generate(
    { prompt: "a", ...{ num_inference_steps: 50 } as object },
    { signal: controller.signal },
  );
  while (engine.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  controller.abort();
  await assert.rejects(answer, OpenAI.APIUserAbortError);
  const start = performance.now();
  while (engine.aborted === 0 && performance.now() - start < 5000) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.equal(engine.aborted, 1);
});

Deno.test("the official client's retries with an Idempotency-Key make one job", async () => {
  const engine = new FakeEngine({ stepMs: 150 });
  await using service = await connect({ openEngine: () => Promise.resolve(engine) });
  const { data } = await service.client("sk-test").images.generate(
    { prompt: "a", ...{ num_inference_steps: 8 } },
    { headers: { "Idempotency-Key": "one" }, timeout: 500, maxRetries: 5 },
  );
  assert.equal(data!.length, 1);
  assert.deepEqual([engine.requests.length, engine.aborted], [1, 0]);
});
