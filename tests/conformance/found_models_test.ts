/** Models that the server was not told of: they come and go while it runs. */
import { strict as assert } from "node:assert";
import { FoundModels } from "../../server/models/found_models.ts";
import type { ServedModel } from "../../server/served_models.ts";
import { engineState } from "../../server/start_parts.ts";
import { startServer } from "../../server/serve.ts";
import type { FoundSource } from "../../server/start_options.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { until } from "../fakes/service.ts";

function source(name: string, engine: FakeEngine | Error, aliases: string[] = []): FoundSource {
  return {
    ...{ name, path: name, aliases, version: "1" },
    open: () => engine instanceof Error ? Promise.reject(engine) : Promise.resolve(engine),
    close: () => engine instanceof Error ? Promise.resolve() : engine.close(),
  };
}

Deno.test("models that come are listed and serve requests, those that go are freed, and other names get advice", async () => {
  const [first, painter] = [new FakeEngine(), new FakeEngine({ stepMs: 50 })];
  let there = [source("gradients", new FakeEngine()), source("broken", new Error("no weights"))];
  const lines: string[] = [];
  const server = await startServer({
    openEngine: () => Promise.resolve(first),
    find: () => Promise.resolve(there),
    ...{ modelPath: "fake/gradients", servedModelName: "gradients", outputPath: "", port: 0 },
    log: (line) => lines.push(line),
  });
  try {
    await server.ready;
    const listed = async (): Promise<string[]> => {
      const { data } = await (await fetch(`${server.url}/v1/models`)).json();
      return data.map(({ id }: { id: string }) => id);
    };
    const draw = (model: string, settings = {}) =>
      fetch(`${server.url}/v1/images/generations`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ prompt: "a", model, ...settings }),
      });
    assert.deepEqual(await listed(), ["gradients"]);
    assert.deepEqual(lines.filter((line) => line.startsWith("Cannot")), [
      "Cannot serve broken: no weights",
    ]);
    there = [...there, source("z-image-turbo", painter, ["Tongyi-MAI/Z-Image-Turbo"])];
    await until(async () => (await listed()).length === 2);
    for (const name of ["z-image-turbo", "Tongyi-MAI/Z-Image-Turbo"]) {
      const response = await draw(name);
      assert.equal(response.status, 200, await response.text());
    }
    assert.deepEqual([first.requests.length, painter.requests.length], [0, 2]);
    assert.equal((await draw("gpt-image-1")).status, 200, "the server was started with one model");

    const cases: [string, RegExp][] = [
      ["z-imag-turbo", /has 'gradients', 'z-image-turbo'; did you mean z-image-turbo\?$/],
      [
        "flux.1-dev",
        /; flux\.1-dev can be fetched: denoise pull flux\.1-dev, or POST \/v1\/pulls$/,
      ],
      [
        "chroma1",
        /; it may be chroma1-hd, chroma1-base, which can be fetched: denoise pull chroma1-hd/,
      ],
      ["broken", /this server has 'gradients', 'z-image-turbo'$/],
    ];
    for (const [name, message] of cases) {
      const response = await draw(name);
      assert.equal(response.status, 404, name);
      const { error } = await response.json();
      assert.match(error.message, message);
      assert.equal(error.code, "model_not_found");
    }

    const remove = async () =>
      (await fetch(`${server.url}/v1/models/z-image-turbo`, { method: "DELETE" })).status;
    const drawing = draw("z-image-turbo", { num_inference_steps: 20 });
    await until(() => painter.requests.length === 3);
    assert.equal(await remove(), 409, "a job runs");
    await (await drawing).text();
    there = [];
    await until(async () => (await listed()).length === 1);
    assert.ok(painter.closed);
    assert.equal((await draw("z-image-turbo")).status, 404);
  } finally {
    await server.close();
  }
});

Deno.test("FoundModels.reload() opens the models again, and frees the ones before", async () => {
  const engines: FakeEngine[] = [];
  const found = new FoundModels({
    find: () =>
      Promise.resolve([{
        ...source("painter", new FakeEngine()),
        open: () => Promise.resolve(engines[engines.push(new FakeEngine()) - 1]!),
        close: () => engines.shift()!.close(),
      }]),
    serve: ({ name, path }, engine) => ({ name, path, engine }) as unknown as ServedModel,
    ...{ asked: [], first: engineState(new FakeEngine()), log: () => {} },
  });
  await found.settle();
  const [before] = engines;
  await found.reload();
  await found.settle();
  assert.ok(before!.closed);
  assert.deepEqual([found.all.length, engines.length, engines[0]!.closed], [1, 1, false]);
});
