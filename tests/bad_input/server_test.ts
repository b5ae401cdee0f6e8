import assert from "node:assert/strict";
import { join } from "node:path";
import { DeviceLostError } from "../../runtime/errors.ts";
import { createApp } from "../../server/app.ts";
import { SqliteJobStore } from "../../server/jobs/sqlite_store.ts";
import { WriteBehindStore } from "../../server/jobs/write_behind.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import { startServer } from "../../server/serve.ts";
import { LocalStorage } from "../../server/storage/local.ts";
import { FailingStore } from "../fakes/failing_store.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

/** Fields that are refused: status, the field that is named, what is said of it. */
const REFUSED: [fields: Record<string, unknown>, status: number, param: string, said: RegExp][] = [
  [{ prompt: "" }, 400, "prompt", /prompt is empty; say what to make/],
  [{ prompt: " \t\n" }, 400, "prompt", /prompt is empty/],
  [{ prompt: null }, 422, "prompt", /valid string/],
  [{ prompt: 7 }, 422, "prompt", /valid string/],
  [{ prompt: "a".repeat(100_000) }, 400, "prompt", /100000 characters, and the limit is 32000/],
  [{ size: "100x100" }, 400, "size", /multiples of 16; the nearest size is 96x96/],
  [{ size: "0x64" }, 400, "size", /positive WIDTHxHEIGHT/],
  [{ size: "-64x64" }, 400, "size", /positive WIDTHxHEIGHT/],
  [{ size: "64.5x64" }, 400, "size", /positive WIDTHxHEIGHT/],
  [{ size: "100000x100000" }, 400, "size", /at most 65536 pixels; the nearest size is 256x256/],
  [{ size: "9".repeat(1000) + "x64" }, 400, "size", /positive WIDTHxHEIGHT/],
  [{ width: -64, height: 64 }, 400, "width", /width must be positive/],
  [{ width: 64.5 }, 422, "width", /valid integer/],
  [{ width: 1e300 }, 422, "width", /./],
  [{ num_inference_steps: 0 }, 400, "num_inference_steps", /must be positive/],
  [{ num_inference_steps: -1 }, 400, "num_inference_steps", /must be positive/],
  [{ num_inference_steps: 1.5 }, 422, "num_inference_steps", /valid integer/],
  [{ num_inference_steps: 1e6 }, 400, "num_inference_steps", /at most 50, got 1000000/],
  [{ guidance_scale: -1 }, 400, "guidance_scale", /must be non-negative/],
  [{ guidance_scale: "7b" }, 422, "guidance_scale", /valid number/],
  [{ seed: -2 }, 400, "seed", /got -2/],
  [{ seed: 1.5 }, 422, "seed", /valid integer/],
  [{ seed: 2 ** 53 }, 422, "seed", /./],
  [{ seed: "7.5" }, 422, "seed", /valid integer/],
  [{ n: 0 }, 400, "n", /./],
  [{ n: 11 }, 400, "n", /./],
  [{ output_compression: 101 }, 400, "output_compression", /between 0 and 100/],
  [{ output_format: "gif" }, 400, "output_format", /must be one of/],
  [{ output_path: "/etc/passwd" }, 400, "output_path", /may not name paths/],
];

Deno.test(`POST ${PATH} names the field of every wrong value, and does no work for it`, async (t) => {
  await using service = await testService();
  for (const [fields, status, param, said] of REFUSED) {
    await t.step(JSON.stringify(fields).slice(0, 60), async () => {
      const response = await service.post(PATH, { prompt: "a", ...fields });
      const body = await response.json();
      assert.equal(response.status, status, JSON.stringify(body));
      assert.ok(isErrorBody(body));
      assert.equal(body.error.param, param);
      assert.match(body.error.message, said);
      assert.ok(body.error.message.length < 500);
    });
  }
  assert.deepEqual(service.engine.requests, []);
});

/** Bodies that are no requests: content type, body, status. */
const BODIES: [
  what: string,
  type: string,
  body: string | Uint8Array<ArrayBuffer>,
  status: number,
][] = [
  ["nothing", "application/json", "", 400],
  ["half an object", "application/json", '{"prompt": "a"', 400],
  ["two objects", "application/json", "{}{}", 400],
  ["an endless number", "application/json", '{"prompt":"a","guidance_scale":1e999}', 422],
  ["a list", "application/json", "[]", 422],
  ["a string", "application/json", '"a"', 422],
  ["null", "application/json", "null", 422],
  ["bytes", "application/json", new Uint8Array([0xff, 0xfe, 0]), 400],
  ["a form", "multipart/form-data; boundary=x", "--x--", 415],
  ["text", "text/plain", '{"prompt":"a"}', 415],
  ["no type", "", '{"prompt":"a"}', 415],
  ["40 MB", "application/json", JSON.stringify({ prompt: "a".repeat(40e6) }), 413],
  ["deep arrays", "application/json", "[".repeat(1e6), 400],
  ["deep arrays that end", "application/json", "[".repeat(9e3) + "]".repeat(9e3), 400],
  ["deep objects", "application/json", '{"a":'.repeat(3e3) + "1" + "}".repeat(3e3), 400],
  ["ten million values", "application/json", `[${"{},".repeat(1e7)}1]`, 400],
  ["ten million escapes", "application/json", `{"prompt":"${"\\n".repeat(1e7)}"}`, 400],
  ["a million digits", "application/json", `{"prompt":"a","seed":${"9".repeat(2 ** 20)}}`, 400],
  [
    "a million values in a text",
    "application/json",
    `{"prompt":"a","extra_body":"{\\"a\\":[${"[],".repeat(3e5)}1]}"}`,
    400,
  ],
  [
    "a deep field",
    "application/json",
    `{"prompt":"a","diffusers_kwargs":{"a":${"[".repeat(9e3)}${"]".repeat(9e3)}},"n":0}`,
    400,
  ],
  [
    "a deep envelope",
    "application/json",
    `{"prompt":"a","extra_body":${"[".repeat(9e3)}${"]".repeat(9e3)}}`,
    400,
  ],
];

Deno.test(`POST ${PATH} over a real connection refuses every body that is no request`, async (t) => {
  const folder = Deno.makeTempDirSync();
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine()),
    port: 0,
    outputPath: folder,
  });
  const post = (type: string, body: BodyInit) =>
    fetch(server.url + PATH, {
      method: "POST",
      headers: type ? { "content-type": type } : {},
      body,
    });
  try {
    await server.ready;
    for (const [what, type, body, status] of BODIES) {
      await t.step(`${what} is ${status}`, async () => {
        const response = await post(type, typeof body === "string" ? encode(body) : body);
        const answer = await response.json();
        assert.equal(response.status, status, JSON.stringify(answer).slice(0, 300));
        assert.ok(isErrorBody(answer));
      });
    }
    for (
      const line of ["GET / HTTP/9\r\n\r\n", "\0\r\n\r\n", `GET /${"a".repeat(1e6)} HTTP/1.1\r\n`]
    ) {
      await t.step(`${JSON.stringify(line.slice(0, 16))} harms nobody`, async () => {
        using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
        // Whoever is refused early may find the connection closed while still writing.
        await connection.write(encode(line)).catch(() => {});
      });
    }
    await t.step("a body that never comes keeps nobody waiting", async () => {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      const type = "content-type: application/json\r\ncontent-length: 100";
      await connection.write(
        encode(`POST ${PATH} HTTP/1.1\r\nhost: localhost\r\n${type}\r\n\r\n{`),
      );
      const response = await post("application/json", '{"prompt":"a","size":"64x64"}');
      assert.equal(response.status, 200);
      await response.body?.cancel();
    });
  } finally {
    await server.close();
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test(`POST ${PATH} says that a result cannot be kept, and the server goes on`, async () => {
  await using service = await testService();
  // A file where the folder should be fails as a full disk does, and needs no disk of its own.
  const results = join(service.folder, "results");
  Deno.writeTextFileSync(results, "");
  const response = await service.post(PATH, { prompt: "a", n: 2 });
  const body = await response.json();
  assert.equal(response.status, 500);
  assert.ok(isErrorBody(body));
  assert.equal(body.error.code, "storage_failed");
  assert.match(
    body.error.message,
    /^Cannot keep the result on the server: a part of its path is a/,
  );
  assert.ok(!JSON.stringify(body).includes(service.folder), "no path of the server is told");
  assert.ok(service.lines.some((line) => line.includes(results)), "the log names the path");
  assert.equal(service.engine.requests.length, 1, "no second image is made for nothing");
  Deno.removeSync(results);
  assert.equal((await service.post(PATH, { prompt: "a" })).status, 200);
});

Deno.test(`POST ${PATH} survives records that cannot be written`, async () => {
  const records = new FailingStore(SqliteJobStore.inMemory());
  const store = new WriteBehindStore(records, { retryMs: 5 });
  const queue = new JobQueue(store, { maxQueue: 4 });
  const engine = new FakeEngine();
  const folder = Deno.makeTempDirSync();
  const storage = new LocalStorage(folder);
  const app = createApp({ engine, jobs: { store, queue }, storage });
  const post = () =>
    app.request(PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"prompt":"a"}',
    });
  records.failing = ["insert", "update"];
  const refused = await post();
  assert.equal(refused.status, 500);
  const { error } = await refused.json();
  assert.equal(error.code, "storage_failed");
  assert.match(error.message, /no space is left on the disk; free some$/);
  assert.equal(engine.requests.length, 0);

  records.failing = ["update"];
  const made = await post();
  assert.equal(made.status, 200, "an image that was made is not thrown away");
  const { id } = await made.json();
  assert.equal((await app.request(`/v1/images/${id}/content`)).status, 200);
  assert.equal((await records.get(id))!.status, "queued");
  records.failing = [];
  await until(async () => (await records.get(id))!.status === "completed");
  await queue.close(0);
  await store.close();
  Deno.removeSync(folder, { recursive: true });
});

Deno.test(`POST ${PATH} is 503 with a reason when the GPU is lost`, async () => {
  const failure = new DeviceLostError("Cannot go on with the GPU: the device was lost");
  await using service = await testService({ engine: new FakeEngine({ failure }) });
  const response = await service.post(PATH, { prompt: "a" });
  const { error } = await response.json();
  assert.equal(response.status, 503);
  assert.equal(response.headers.get("retry-after"), "5");
  assert.equal(error.code, "device_lost");
  assert.match(error.message, /the GPU was lost, and is started again; send the request again/);
  assert.ok(service.lines.some((line) => line.includes(failure.message)));
  assert.ok(!service.lines.some((line) => /\n\s+at /.test(line)), "no stack");
});

Deno.test("startServer() says in a sentence where it cannot listen or keep records", async () => {
  const folder = Deno.makeTempDirSync();
  const file = join(folder, "file");
  Deno.writeTextFileSync(file, "");
  const broken = join(folder, "broken");
  Deno.mkdirSync(broken);
  Deno.writeTextFileSync(join(broken, "jobs.sqlite"), "no database at all".repeat(100));
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const openEngine = () => Promise.resolve(new FakeEngine());
  const cases: [options: Partial<Parameters<typeof startServer>[0]>, message: RegExp][] = [
    [
      { port, strictPorts: true },
      new RegExp(`127\\.0\\.0\\.1:${port}: the port is in use; choose`),
    ],
    [{ host: "" }, /Cannot listen on "":0: .*; choose another address with --host/],
    [{ host: "no.such.host.invalid" }, /Cannot listen on no\.such\.host\.invalid:0: .*; choose/],
    [{ host: "192.0.2.1" }, /Cannot listen on 192\.0\.2\.1:0: .*; choose another address/],
    [{ outputPath: file }, /Cannot open the records in .*: a part of its path is a file;/],
    [
      { outputPath: join(file, "in") },
      /Cannot open the records in .*: a part of its path is a file;/,
    ],
    [{ outputPath: broken }, /Cannot open the records in .*not a database; name another folder/],
  ];
  try {
    for (const [options, message] of cases) {
      await assert.rejects(
        startServer({ openEngine, port: 0, outputPath: "", ...options }),
        message,
      );
    }
    const server = await startServer({ openEngine, port, outputPath: "" });
    assert.notEqual(server.port, port);
    await server.close();
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("startServer() answers 503 when the model cannot be opened, without the reason's paths", async () => {
  const server = await startServer({
    openEngine: () => Promise.reject(new Error("Cannot open model /home/x: it does not exist")),
    port: 0,
    outputPath: "",
  });
  try {
    await assert.rejects(server.ready, /it does not exist/);
    const response = await fetch(server.url + PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"prompt":"a"}',
    });
    assert.equal(response.status, 503);
    assert.doesNotMatch(await response.text(), /home/);
  } finally {
    await server.close();
  }
});

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
