import { strict as assert } from "node:assert";
import { join } from "node:path";
import { loraFile } from "../tests/fakes/loras.ts";
import { FakeEngine, gradient } from "../tests/fakes/engine.ts";
import { GeneratedImage } from "../generation/generated_image.ts";
import { startServer } from "./serve.ts";
import type { RunningServer, StartOptions } from "./start_options.ts";

/** An image of any kind. */
const RECIPE = {
  prompt: "a",
  negativePrompt: "",
  model: "fake",
  seed: 1,
  width: 64,
  height: 48,
  numInferenceSteps: 1,
  guidanceScale: 1,
};

/** A folder, and all that is in it. */
function* walk(path: string): Generator<string> {
  yield path;
  if (!Deno.statSync(path).isDirectory) return;
  for (const { name } of Deno.readDirSync(path)) yield* walk(join(path, name));
}

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

const open = () => Promise.resolve(new FakeEngine());
const start = (options: Partial<StartOptions>) =>
  startServer({ openEngine: open, outputPath: "", port: 0, ...options });

Deno.test("startServer() moves to another port when the one asked for is in use, and says so", async () => {
  const first = await start({});
  const lines: string[] = [];
  const second = await start({ port: first.port, log: (line) => lines.push(line) });
  try {
    assert.notEqual(second.port, first.port);
    assert.deepEqual(lines, [
      `Port ${first.port} is in use: listening on ${second.port} instead`,
    ]);
    const response = await fetch(`${second.url}/liveness`);
    assert.deepEqual(await response.json(), { status: "ok" });
  } finally {
    await first.close();
    await second.close();
  }
});

Deno.test("startServer() with strictPorts refuses a port in use in one sentence", async () => {
  const first = await start({});
  try {
    await assert.rejects(start({ port: first.port, strictPorts: true }), {
      message: `Cannot listen on 127.0.0.1:${first.port}: the port is in use; ` +
        "choose another with --port",
    });
  } finally {
    await first.close();
  }
});

Deno.test("startServer() refuses an address that is not this machine's", async () => {
  await assert.rejects(start({ host: "192.0.2.1" }), /^Error: Cannot listen on 192\.0\.2\.1:0: /);
});

Deno.test("startServer() answers while the model loads and tells how far it is, and later that it was unloaded", async () => {
  const loading = Promise.withResolvers<FakeEngine>();
  let report = (_fraction: number, _isDownload?: boolean) => {};
  const server = await start({
    openEngine: (onProgress) => {
      report = onProgress;
      return loading.promise;
    },
  });
  try {
    for (const stage of ["download", "load"]) {
      report(0.5, stage === "download");
      const response = await fetch(`${server.url}/health`);
      assert.equal(response.status, 503);
      const body = await response.json();
      assert.deepEqual([body.progress, body.stage], [0.5, stage]);
    }
    const engine = new FakeEngine();
    loading.resolve(engine);
    await server.ready;
    const ready = await fetch(`${server.url}/health`);
    assert.deepEqual(await ready.json(), { status: "ok" });
    engine.isLoaded = false;
    const idle = await fetch(`${server.url}/health`);
    assert.equal(idle.status, 200);
    assert.deepEqual(await idle.json(), { status: "ok", model: "unloaded" });
  } finally {
    await server.close();
  }
});

Deno.test("startServer() gives the reason when the model cannot be loaded", async () => {
  const failure = new Error("Cannot find the model: no folder of that name");
  const server = await start({ openEngine: () => Promise.reject(failure) });
  await assert.rejects(server.ready, failure);
  await server.close();
});

Deno.test("startServer() sets LoRAs before it answers, under the names of their files", async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "style.safetensors");
  await Deno.writeFile(path, loraFile({ mark: 1 }));
  const server = await start({ loras: [{ path, strength: 0.5 }, { path, target: "transformer" }] });
  try {
    await server.ready;
    const { active } = await (await fetch(`${server.url}/v1/list_loras`)).json();
    const names = active.transformer.map(({ nickname }: { nickname: string }) => nickname);
    assert.deepEqual(names, ["style", "style-2"]);
    assert.deepEqual(active.transformer_2.length, 1);
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("startServer() gives the reason when its LoRAs cannot be set, and frees the engine", async () => {
  const engine = new FakeEngine();
  const server = await start({
    loras: [{ path: "./none.safetensors" }],
    openEngine: () => Promise.resolve(engine),
  });
  await assert.rejects(server.ready, /Cannot open LoRA .*none\.safetensors: it does not exist/);
  assert.ok(engine.closed);
  await server.close();
});

Deno.test("RunningServer.close() frees the engine, and may be called twice", async () => {
  const engine = new FakeEngine();
  const server = await start({ openEngine: () => Promise.resolve(engine) });
  await server.ready;
  await Promise.all([server.close(), server.close()]);
  assert.ok(engine.closed);
  await assert.rejects(fetch(`${server.url}/liveness`));
});

Deno.test("RunningServer.close() gives up loading, and closes an engine that comes too late", async () => {
  const late = new FakeEngine();
  const openers: ((signal: AbortSignal) => Promise<FakeEngine>)[] = [
    (signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    (signal) =>
      new Promise((resolve) =>
        signal.addEventListener("abort", () => setTimeout(() => resolve(late), 20))
      ),
  ];
  for (const opener of openers) {
    const server = await start({ openEngine: (_, signal) => opener(signal) });
    await server.close();
  }
  assert.ok(late.closed);
});

Deno.test("a server answers HEAD over the wire with the length of the file", async () => {
  const folder = await Deno.makeTempDir();
  const server = await start({ outputPath: folder });
  try {
    await server.ready;
    const answer = await fetch(`${server.url}/v1/images/generations`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "a" }),
    });
    const { data } = await answer.json();
    const head = await fetch(server.url + data[0].url, { method: "HEAD" });
    const { size } = await Deno.stat(data[0].file_path);
    assert.equal(head.headers.get("content-length"), String(size));
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({
  name: "a server lets nobody else read its records, results and uploads",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = join(await Deno.makeTempDir(), "outputs");
    const umask = Deno.umask(0);
    const engine = new FakeEngine({ info: { supportedTasks: ["T2I", "TI2I"] } });
    const server = await start({
      outputPath: folder,
      openEngine: () => Promise.resolve(engine),
    });
    try {
      await server.ready;
      const seen = new Map<string, number>();
      const look = () => {
        for (const path of walk(folder)) seen.set(path, Deno.statSync(path).mode! & 0o777);
      };
      engine.generate = ((generate) => (...args) => {
        look();
        return generate.apply(engine, args);
      })(engine.generate);
      const form = new FormData();
      form.set("prompt", "a");
      form.set("image", new Blob([await new GeneratedImage(RECIPE, gradient(RECIPE)).toPng()]));
      const answer = await fetch(`${server.url}/v1/images/edits`, { method: "POST", body: form });
      assert.equal(answer.status, 200, await answer.text());
      look();
      assert.ok([...seen.keys()].some((path) => /inputs\/img_.*png$/.test(path)), "an upload");
      assert.ok([...seen.keys()].some((path) => /outputs\/img_.*jpg$/.test(path)), "a result");
      assert.ok(
        [...seen.keys()].some((path) => /jobs\.sqlite-wal$/.test(path)),
        "a log of records",
      );
      for (const [path, mode] of seen) assert.equal(mode & 0o077, 0, `${path} ${mode.toString(8)}`);
    } finally {
      await server.close();
      Deno.umask(umask);
      await Deno.remove(join(folder, ".."), { recursive: true });
    }
  },
});

Deno.test("a server removes what requests left that a killed one had begun to take", async () => {
  const folder = await Deno.makeTempDir();
  const left = join(folder, "inputs", "img_left");
  await Deno.mkdir(left, { recursive: true });
  await Deno.utime(left, new Date(0), new Date(0));
  const server = await start({ outputPath: folder });
  try {
    for (let looks = 0; await exists(left) && looks < 500; looks++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    assert.ok(!await exists(left));
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a server hears out a body that is too long before it answers 413", async () => {
  const server = await start({ maxBodyBytes: 100_000 });
  try {
    await server.ready;
    const response = await fetch(`${server.url}/v1/images/generations`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "a".repeat(500_000) }),
    });
    assert.equal(response.status, 413);
    assert.equal((await response.json()).error.code, "body_too_large");
  } finally {
    await server.close();
  }
});

Deno.test("a server that resumes keeps what an edit needs, and runs it with the next start", async () => {
  const folder = await Deno.makeTempDir();
  const engine = (stepMs: number) =>
    new FakeEngine({ stepMs, info: { supportedTasks: ["T2I", "TI2I"] } });
  const run = (testee: FakeEngine, loaded: Promise<unknown> = Promise.resolve()) =>
    start({
      outputPath: folder,
      resumeJobs: true,
      graceMs: 0,
      loraFolders: [folder],
      openEngine: () => loaded.then(() => testee),
    });
  try {
    await Deno.writeFile(join(folder, "a.safetensors"), loraFile({ mark: 1 }));
    const first = await run(engine(500));
    await first.ready;
    const form = new FormData();
    form.set("prompt", "a");
    form.set("loras", '[{"path":"a.safetensors","strength":0.5}]');
    form.set("image", new Blob([await new GeneratedImage(RECIPE, gradient(RECIPE)).toPng()]));
    const answers = [1, 2].map(() =>
      fetch(`${first.url}/v1/images/edits`, { method: "POST", body: form })
    );
    const jobs = async (server: RunningServer) =>
      await (await fetch(`${server.url}/v1/jobs`)).json();
    while ((await jobs(first)).waiting < 1) await new Promise((done) => setTimeout(done, 5));
    await first.close();
    for (const answer of await Promise.all(answers)) {
      assert.equal(answer.status, 503);
      await answer.body?.cancel();
    }

    const testee = engine(0);
    const loading = Promise.withResolvers<void>();
    const second = await run(testee, loading.promise);
    assert.equal((await jobs(second)).waiting, 2, "while the model loads");
    loading.resolve();
    await second.ready;
    while ((await jobs(second)).running > 0) await new Promise((done) => setTimeout(done, 5));
    const { data } = await jobs(second);
    assert.deepEqual(data.map(({ status }: { status: string }) => status), [
      "completed",
      "completed",
    ]);
    assert.equal(testee.requests[1]!.images!.length, 1);
    assert.equal(testee.requests[1]!.loras?.[0]?.strength, 0.5);
    await second.close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
