/** Models that the server was not told of: they come and go while it runs. */
import { strict as assert } from "node:assert";
import { partNamed } from "../../hub/catalogue_parts.ts";
import { SteeringChoices } from "../../server/models/steering_choices.ts";
import { FoundModels } from "../../server/models/found_models.ts";
import type { ImageRequest } from "../../server/images/image_request.ts";
import type { ServerLoras } from "../../server/loras/server_loras.ts";
import { Runners } from "../../server/runners.ts";
import { type ServedModel, ServedModels } from "../../server/served_models.ts";
import { DEFAULT_SETTINGS } from "../../server/settings.ts";
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

Deno.test("FoundModels.reload() opens the models again, knows them as they were meanwhile, and frees the ones before", async () => {
  const engines: FakeEngine[] = [];
  let gate = Promise.resolve();
  const found = new FoundModels({
    find: () =>
      Promise.resolve([{
        ...source("painter", new FakeEngine()),
        open: async () => {
          await gate;
          return engines[engines.push(new FakeEngine()) - 1]!;
        },
        close: () => engines.shift()!.close(),
      }]),
    serve: ({ name, path }, engine) => ({ name, path, engine }) as unknown as ServedModel,
    ...{ asked: [], first: engineState(new FakeEngine()), log: () => {} },
  });
  await found.settle();
  const [before] = engines;
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  const reloaded = found.reload();
  await until(() => found.all[0]?.engine.status === "loading");
  assert.equal(found.all[0]!.engine.info, before!.info);
  resolve();
  await reloaded;
  await found.settle();
  assert.ok(before!.closed);
  assert.deepEqual([found.all.length, engines.length, engines[0]!.closed], [1, 1, false]);
});

Deno.test("a found model is opened with ControlNets and IP-Adapters of this machine, and with others by POST /v1/models/{id}/parts", async () => {
  const opened: string[][] = [];
  let refused = "sdxl-controlnet-canny";
  const choices = new SteeringChoices((line) => lines.push(line));
  const lines: string[] = [];
  const there = [
    ...["control_v11p_sd15_canny", "control_v11f1p_sd15_depth", "control_v11p_sd15_openpose"],
    ...["control_v11p_sd15_lineart", "control_v11p_sd15_scribble", "sdxl-controlnet-canny"],
    ...["sdxl-t2i-adapter-sketch", "ip-adapter_sdxl_vit-h", "ip-adapter_sdxl"],
  ].map((name) => partNamed(name)!);
  const steered = (name: string, family: string) =>
    choices.steered(source(name, new FakeEngine()), { name, family }, there, (parts) => {
      const { steersWhenAsked = false, ...files } = parts;
      const names = Object.values(files) as string[];
      opened.push([name, ...names]);
      assert.equal(steersWhenAsked, names.length > 0);
      if (names.includes(refused)) return Promise.reject(new Error("it does not fit"));
      const controlNets = names.filter((each) => !each.startsWith("ip-")).map((name) => ({ name }));
      return Promise.resolve(new FakeEngine({ info: { controlNets } }));
    });
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine()),
    find: () => Promise.resolve([steered("sd-1.5", "SD 1 or SD 2"), steered("sdxl-base", "SDXL")]),
    ...{ modelPath: "fake/gradients", servedModelName: "gradients", outputPath: "", port: 0 },
    log: (line) => lines.push(line),
  });
  const change = async (model: string, body: object) => {
    const response = await fetch(`${server.url}/v1/models/${model}/parts`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return [response.status, await response.json()] as const;
  };
  try {
    await server.ready;
    const cards = async () => {
      const { data } = await (await fetch(`${server.url}/v1/models`)).json();
      return new Map<string, Awaited<ReturnType<typeof change>>[1]>(
        data.map((card: { id: string }) => [card.id, card]),
      );
    };
    await until(async () => (await cards()).size === 3);
    const used = (card: { parts: Record<string, { id: string; in_use: boolean }[]> }) =>
      [...card.parts["control_nets"]!, ...card.parts["ip_adapters"]!].filter(({ in_use }) => in_use)
        .map(({ id }) => id);
    const before = await cards();
    assert.deepEqual(used(before.get("sd-1.5")), there.slice(0, 4).map(({ name }) => name));
    assert.equal(before.get("sd-1.5").parts.control_nets.length, 5);
    assert.equal(before.get("sd-1.5").control_nets.length, 4);
    assert.deepEqual(used(before.get("sdxl-base")), [], "what does not go with it is omitted");
    assert.match(
      lines.join(),
      /Serves sdxl-base without sdxl-controlnet-canny, ip-adapter_sdxl_vit-h: it does not fit/,
    );
    assert.deepEqual(used(before.get("gradients")), []);

    refused = "control_v11p_sd15_lineart";
    const scribble = { control_nets: ["control_v11p_sd15_scribble"] };
    const [status, card] = await change("sd-1.5", scribble);
    assert.deepEqual([status, used(card)], [200, scribble.control_nets]);
    assert.deepEqual(opened.at(-1), ["sd-1.5", ...scribble.control_nets]);
    const adapters = {
      control_nets: ["sdxl-t2i-adapter-sketch"],
      ip_adapters: ["ip-adapter_sdxl"],
    };
    const [, sdxl] = await change("sdxl-base", adapters);
    assert.deepEqual(used(sdxl), ["sdxl-t2i-adapter-sketch", "ip-adapter_sdxl"]);
    for (
      const [model, body, wanted, message] of [
        ["sd-1.5", { control_nets: [refused] }, 400, /^it does not fit$/],
        [
          "sd-1.5",
          { control_nets: ["sdxl-controlnet-canny"] },
          400,
          /^Cannot use the ControlNet sdxl/,
        ],
        [
          "sd-1.5",
          { control_nets: there.slice(0, 5).map(({ name }) => name) },
          400,
          /takes 4; omit/,
        ],
        [
          "sdxl-base",
          { ip_adapters: ["ip-adapter_sdxl", "ip-adapter_sdxl_vit-h"] },
          400,
          /by ViT-bigG and ViT-H/,
        ],
        ["gradients", { control_nets: [] }, 409, /was started with it/],
        ["none", {}, 404, /none/],
      ] as const
    ) {
      const [status, { error }] = await change(model, body);
      assert.equal(status, wanted, JSON.stringify(error));
      assert.match(error.message, message);
    }
    assert.deepEqual(used((await cards()).get("sd-1.5")), scribble.control_nets, "as before");
    assert.deepEqual(used((await change("sd-1.5", { control_nets: [] }))[1]), []);
  } finally {
    await server.close();
  }
});

Deno.test("changes of a model's parts go one after the other; requests wait for it, a refused DELETE leaves it, and one that is gone is a 404", async () => {
  const names = ["control_v11p_sd15_canny", "control_v11f1p_sd15_depth"];
  const open: FakeEngine[] = [];
  let [mostOpen, opened, isThere] = [0, 0, true];
  let gate: Promise<void> = Promise.resolve();
  const choices = new SteeringChoices();
  const painter = choices.steered(
    {
      ...source("sd-1.5", new FakeEngine()),
      close: async () => {
        await Promise.all(open.splice(0).map((engine) => engine.close()));
      },
    },
    { name: "sd-1.5", family: "SD 1 or SD 2" },
    names.map((name) => partNamed(name)!),
    async ({ steersWhenAsked: _, ...parts }) => {
      opened++;
      await gate;
      const controlNets = (Object.values(parts) as string[]).map((name) => ({ name }));
      mostOpen = Math.max(mostOpen, open.push(new FakeEngine({ info: { controlNets } })));
      return open.at(-1)!;
    },
  );
  const cache = await Deno.makeTempDir();
  const before = Deno.env.get("HF_HUB_CACHE");
  Deno.env.set("HF_HUB_CACHE", cache);
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine()),
    find: () => Promise.resolve(isThere ? [painter] : []),
    ...{ modelPath: "fake/gradients", servedModelName: "gradients", outputPath: "", port: 0 },
  });
  const url = `${server.url}/v1/models/sd-1.5`;
  const send = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    return [response.status, await response.json()] as const;
  };
  const change = (...control_nets: string[]) => send(`${url}/parts`, { control_nets });
  const draw = () => send(`${server.url}/v1/images/generations`, { prompt: "a", model: "sd-1.5" });
  const nets = async (): Promise<string[]> => {
    const { control_nets } = await (await fetch(url)).json();
    return control_nets.map(({ name }: { name: string }) => name);
  };
  const remove = async () => {
    const response = await fetch(url, { method: "DELETE" });
    await response.body?.cancel();
    return response.status;
  };
  try {
    await server.ready;
    assert.deepEqual(await nets(), names);

    const eight = await Promise.all(
      Array.from({ length: 8 }, (_, i) => change(names[i % 2]!)),
    );
    for (const [i, [status, card]] of eight.entries()) {
      assert.equal(status, 200, JSON.stringify(card));
      assert.deepEqual(card.control_nets.map(({ name }: { name: string }) => name), [names[i % 2]]);
    }
    assert.deepEqual([await nets(), opened, mostOpen], [[names[1]], 9, 1]);

    const during = async <T>(work: () => Promise<T>) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      [gate, opened] = [promise, 0];
      const switched = change(names[0]!);
      await until(() => opened === 1);
      const worked = work();
      return { switched, worked, resolve };
    };
    const drawn = await during(draw);
    assert.equal(await remove(), 404, "nothing of it is in the cache");
    drawn.resolve();
    assert.equal((await drawn.switched)[0], 200);
    const [status, body] = await drawn.worked;
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(open[0]!.requests.length, 1, "by the model that came");
    assert.deepEqual(await nets(), [names[0]]);

    const hub = `${cache}/models--stable-diffusion-v1-5--stable-diffusion-v1-5/blobs`;
    await Deno.mkdir(hub, { recursive: true });
    const gone = await during(async () => {
      isThere = false;
      return await remove();
    });
    assert.equal(await gone.worked, 200);
    gone.resolve();
    const [refused, { error }] = await gone.switched;
    assert.deepEqual([refused, error.code], [404, "model_not_found"]);
    assert.match(error.message, /^The model 'sd-1\.5' does not exist/);
    assert.equal((await draw())[0], 404);
    assert.equal(open.length, 0, "what came too late is freed");
  } finally {
    await server.close();
    if (before === undefined) Deno.env.delete("HF_HUB_CACHE");
    else Deno.env.set("HF_HUB_CACHE", before);
    await Deno.remove(cache, { recursive: true });
  }
});

Deno.test("a job whose model is gone fails, and no other model runs it", async () => {
  const engine = new FakeEngine();
  const state = engineState(engine);
  const model = { name: "gradients", path: "fake/gradients", namedLoras: {}, engine: state };
  const runners = new Runners({
    models: new ServedModels([{ ...model, loras: {} as ServerLoras }]),
    ...{ settings: DEFAULT_SETTINGS, storage: undefined, enhancer: undefined },
    ffmpeg: () => Promise.reject(new Error("Cannot make videos here")),
  });
  const request = { model: "painter", prompt: "a", images: [], seeds: [1], loras: [] };
  const job = runners.image({ id: "img_1", request: request as unknown as ImageRequest });
  assert.equal(job.model, "painter");
  const { signal } = new AbortController();
  const context = { id: "img_1", signal, progress() {}, preview() {}, output() {} };
  await assert.rejects(job.work(context), /^ApiError: The model 'painter' does not exist/);
  assert.deepEqual(engine.requests, []);
});
