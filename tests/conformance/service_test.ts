import { strict as assert } from "node:assert";
import { encodeImage } from "../../media/encode.ts";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

/** Requests that no route answers: method, path, status, the reference's text or ours. */
const ERRORS: [method: string, path: string, status: number, detail: string | RegExp][] = [
  ["GET", "/nothing", 404, "Not Found"],
  ["GET", "/v1/images", 404, "Not Found"],
  ["GET", "/v1/images/a/content/more", 404, "Not Found"],
  ["GET", "/v1/images/img_1/content", 404, "Image not found"],
  ["GET", "/v1/images/..%2F..%2Fetc%2Fpasswd/content", 404, "Image not found"],
  ["GET", PATH, 405, "Method Not Allowed"],
  ["DELETE", "/v1/models", 405, "Method Not Allowed"],
  ["POST", "/health", 405, "Method Not Allowed"],
  ["PUT", "/v1/images/img_1/content", 405, "Method Not Allowed"],
  ["POST", "/v1/images/edits", 415, /send multipart\/form-data$/],
  ["POST", "/v1/images/variations", 404, /does not provide image variations$/],
  ["POST", "/v1/videos/video_1/remix", 404, /does not provide remixes of videos$/],
  ["POST", "/v1/videos/sync", 404, /does not provide videos whose answer waits for them$/],
  ["POST", "/v1/videos/edits", 404, /does not provide edits of videos$/],
  ["POST", "/v1/videos/extensions", 404, /does not provide extensions of videos$/],
  ["POST", "/v1/videos/characters", 404, /does not provide characters$/],
  ["GET", "/v1/files", 404, /does not provide a store of files$/],
  ["POST", "/v1/responses", 404, /does not provide text generation$/],
  ["GET", "/v1/videos/video_1", 404, "Video not found"],
  ["GET", "/v1/videos/video_1/content", 404, "Video not found"],
  ["GET", "/v1/videos/video_1/events", 404, "Video not found"],
  ["POST", "/v1/videos/video_1/cancel", 404, "Video not found"],
  ["DELETE", "/v1/videos/video_1", 404, "Video not found"],
  ["GET", "/v1/set_lora", 405, "Method Not Allowed"],
  ["POST", "/v1/list_loras", 405, "Method Not Allowed"],
  ["POST", "/v1/meshes", 404, /does not provide mesh generation$/],
  ["POST", "/v1/chat/completions", 404, /does not provide text generation$/],
  ["POST", "/v1/audio/speech", 404, /does not provide audio$/],
  ["POST", "/v1/actions/generations", 404, /does not provide action generation$/],
  ["GET", "/metrics", 404, /metrics are off; start the server with --enable-metrics$/],
];

for (const [method, path, status, detail] of ERRORS) {
  Deno.test(`${method} ${path} is ${status} in both dialects`, async () => {
    await using service = await testService();
    const response = await service.get(path, { method });
    const body = await response.json();
    assert.equal(response.status, status);
    assert.ok(isErrorBody(body));
    if (typeof detail === "string") assert.equal(body.detail, detail);
    else assert.match(body.detail, detail);
    assert.ok(response.headers.get("x-request-id"));
    assert.equal(response.headers.get("content-type"), "application/json");
  });
}

Deno.test("a wrong method is answered with the methods that are allowed", async () => {
  await using service = await testService();
  const get = await service.get("/v1/models", { method: "POST" });
  assert.equal(get.headers.get("allow"), "GET, HEAD");
  await get.body?.cancel();
  const post = await service.get(PATH);
  assert.equal(post.headers.get("allow"), "POST");
  await post.body?.cancel();
});

for (const type of ["text/plain", "application/x-www-form-urlencoded", ""]) {
  Deno.test(`POST ${PATH} with content type "${type}" is 415`, async () => {
    await using service = await testService();
    const response = await service.post(PATH, { prompt: "a" }, {
      headers: { "content-type": type },
    });
    assert.equal(response.status, 415);
    assert.ok(isErrorBody(await response.json()));
  });
}

Deno.test("addresses with slashes too many, or /v1 twice, are answered, and those without /v1 are told of it", async () => {
  await using service = await testService({ settings: { apiKeys: ["key"] } });
  const ask = (method: string, path: string, key = "key") =>
    service.get(path, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(method === "POST" ? { body: '{"prompt":"a"}' } : {}),
    });
  for (const path of [`/${PATH}`, `${PATH}/`, `/v1${PATH}`, `/v1//images///generations//`]) {
    const response = await ask("POST", path);
    assert.equal(response.status, 200, `${path}: ${await response.text()}`);
    const refused = await ask("POST", path, "another");
    assert.equal(refused.status, 401, path);
    await refused.body?.cancel();
  }
  assert.equal((await (await ask("GET", "/v1/models/")).json()).object, "list");
  const { error } = await (await ask("POST", "/images/generations")).json();
  assert.match(error.message, /the path begins with \/v1: \/v1\/images\/generations$/);
});

Deno.test("a body beyond the limit is 413, whether its length is told or not", async () => {
  await using service = await testService({ settings: { maxBodyBytes: 1000 } });
  const body = JSON.stringify({ prompt: "a".repeat(1000) });
  const stream = () => new Blob([body]).stream();
  for (const init of [{ body }, { body: stream() }]) {
    const response = await service.get(PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      ...init,
    });
    assert.equal(response.status, 413);
    assert.ok(isErrorBody(await response.json()));
  }
});

Deno.test("a compressed body is 415, and told what to send", async () => {
  await using service = await testService();
  for (const path of [PATH, "/v1/images/edits", "/v1/set_lora", "/sdapi/v1/txt2img"]) {
    const response = await service.post(path, { prompt: "a" }, {
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
    });
    assert.equal(response.status, 415);
    assert.equal(response.headers.get("accept-encoding"), "identity");
    const { detail } = await response.json();
    assert.equal(
      detail,
      "Cannot read the body: its content encoding is 'gzip'; send it uncompressed",
    );
  }
  const plain = await service.post(PATH, { prompt: "a" }, {
    headers: { "content-type": "application/json", "content-encoding": "identity" },
  });
  assert.equal(plain.status, 200);
  await plain.body?.cancel();
});

Deno.test("bytes that are not UTF-8 are 400", async () => {
  await using service = await testService();
  const response = await service.get(PATH, {
    method: "POST",
    body: Uint8Array.of(0x7b, 0xff, 0x7d),
    headers: { "content-type": "application/json" },
  });
  assert.equal(response.status, 400);
  assert.match((await response.json()).error.message, /not UTF-8/);
});

Deno.test("x-request-id is the client's where it is plain, else a new one", async () => {
  await using service = await testService();
  const id = async (sent: string) => {
    const response = await service.get("/liveness", { headers: { "x-request-id": sent } });
    await response.body?.cancel();
    return response.headers.get("x-request-id") ?? "";
  };
  assert.equal(await id("abc-1.2_3"), "abc-1.2_3");
  assert.match(await id("a b"), /^req_[0-9a-f-]{36}$/);
  assert.match(await id("a".repeat(129)), /^req_/);
});

Deno.test("with keys, every path but the probes asks for one of them", async () => {
  await using service = await testService({ settings: { apiKeys: ["one", "two"] } });
  const status = async (path: string, authorization?: string) => {
    const response = await service.get(path, {
      headers: authorization === undefined ? {} : { authorization },
    });
    const body = await response.json();
    if (!response.ok) assert.ok(isErrorBody(body));
    if (response.status === 401) assert.match(response.headers.get("www-authenticate")!, /^Bearer/);
    return response.status;
  };
  for (const path of ["/liveness", "/health", "/health_generate"]) {
    assert.equal(await status(path), 200);
  }
  for (const key of [undefined, "", "one", "Bearer", "Bearer three", "Bearer on", "Basic one"]) {
    assert.equal(await status("/v1/models", key), 401, String(key));
    assert.equal(await status("/nothing", key), 401);
  }
  assert.equal(await status("/v1/models", "Bearer one"), 200);
  assert.equal(await status("/v1/models", "bearer two"), 200);
});

Deno.test("pages of this machine may call, others only when the server was told of them", async () => {
  const origin = async (sent: string, corsOrigins: string[]) => {
    await using service = await testService({ settings: { corsOrigins, apiKeys: ["key"] } });
    const response = await service.get("/v1/models", { headers: { origin: sent } });
    await response.body?.cancel();
    const preflight = await service.get(PATH, {
      method: "OPTIONS",
      headers: { origin: sent, "access-control-request-method": "POST" },
    });
    const [allowed, before] = [response, preflight].map(({ headers }) =>
      headers.get("access-control-allow-origin")
    );
    assert.equal(allowed, before, "preflight and answer agree");
    return allowed;
  };
  assert.equal(await origin("http://localhost:5173", []), "http://localhost:5173");
  assert.equal(await origin("https://example.com", []), null);
  assert.equal(await origin("http://localhost.example.com", []), null);
  assert.equal(await origin("https://example.com", ["https://example.com"]), "https://example.com");
  assert.equal(await origin("https://example.com", ["*"]), "*");
});

Deno.test("requests run one at a time in their order, and too many are 429 with a delay", async () => {
  const engine = new FakeEngine({ stepMs: 50 });
  await using service = await testService({ engine, maxQueue: 2 });
  const responses = await Promise.all(
    [1, 2, 3, 4].map((seed) => service.post(PATH, { prompt: "a", seed })),
  );
  assert.deepEqual(responses.map(({ status }) => status), [200, 200, 200, 429]);
  assert.deepEqual(engine.requests.map(({ seed }) => seed), [1, 2, 3]);
  assert.equal(engine.mostAtOnce, 1);
  const refused = responses[3]!;
  assert.ok(Number(refused.headers.get("retry-after")) >= 1);
  const { error } = await refused.json();
  assert.equal(error.code, "queue_full");
  assert.equal(error.type, "rate_limit_error");
});

Deno.test("a closed connection cancels its request, running or waiting, and no other", async () => {
  const engine = new FakeEngine({ stepMs: 20 });
  await using service = await testService({ engine });
  const [running, waiting] = [new AbortController(), new AbortController()];
  const answers = [
    service.post(PATH, { prompt: "a", seed: 1 }, { signal: running.signal }),
    service.post(PATH, { prompt: "a", seed: 2 }, { signal: waiting.signal }),
    service.post(PATH, { prompt: "a", seed: 3 }),
  ];
  await until(() => service.queue.waiting === 2);
  const ids = [service.queue.running[0]!];
  waiting.abort();
  running.abort();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  assert.deepEqual(statuses, [499, 499, 200]);
  assert.deepEqual(engine.requests.map(({ seed }) => seed), [1, 3]);
  assert.equal(engine.aborted, 1);
  assert.equal((await service.store.get(ids[0]!))!.status, "cancelled");
});

for (const kind of ["JSON", "multipart"]) {
  Deno.test(`a connection that closes cancels its request when ${kind} came after the headers`, async () => {
    const engine = new FakeEngine({ stepMs: 20, info: { supportedTasks: ["T2I", "TI2I"] } });
    const server = await startServer({
      openEngine: () => Promise.resolve(engine),
      port: 0,
      outputPath: "",
    });
    try {
      await server.ready;
      const form = new FormData();
      form.set("prompt", "a");
      form.set("num_inference_steps", "50");
      const data = new Uint8Array(64 * 48 * 3);
      const { bytes } = await encodeImage({ width: 64, height: 48, data }, { format: "png" });
      form.set("image", new Blob([bytes]));
      const [path, sent] = kind === "JSON"
        ? [PATH, Response.json({ prompt: "a", task_type: "T2I", num_inference_steps: 50 })]
        : ["/v1/images/edits", new Response(form)];
      const body = await sent.bytes();
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      const writer = connection.writable.getWriter();
      await writer.write(
        new TextEncoder().encode([
          `POST ${path} HTTP/1.1`,
          "host: 127.0.0.1",
          `content-type: ${sent.headers.get("content-type")}`,
          `content-length: ${body.length}`,
          "\r\n",
        ].join("\r\n")),
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
      await writer.write(body);
      await until(() => engine.requests.length === 1);
      connection.close();
      await until(() => engine.aborted === 1);
    } finally {
      await server.close();
    }
  });
}

Deno.test("a client that leaves in the middle of its body is told of as 499, not as an error", async () => {
  const lines: [string, string | undefined][] = [];
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine()),
    port: 0,
    outputPath: "",
    log: (line, fields) => lines.push([line, fields?.level]),
  });
  try {
    await server.ready;
    for (const type of ["application/json", "multipart/form-data; boundary=b"]) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      const path = type.startsWith("multipart") ? "/v1/images/edits" : PATH;
      await connection.write(
        new TextEncoder().encode(
          `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${type}\r\n` +
            `content-length: 100\r\n\r\n--b\r\n`,
        ),
      );
      await new Promise((resolve) => setTimeout(resolve, 20));
      connection.close();
    }
    await until(() => lines.length >= 2);
    for (const [line, level] of lines) {
      assert.match(line, /^POST \S+ 499 /);
      assert.equal(level, "info");
    }
  } finally {
    await server.close();
  }
});

Deno.test("a stopping server lets the running request finish and refuses the others with 503", async () => {
  const engine = new FakeEngine({ stepMs: 20 });
  await using service = await testService({ engine });
  const answers = [1, 2].map((seed) => service.post(PATH, { prompt: "a", seed }));
  await until(() => service.queue.waiting === 1);
  const closed = service.queue.close(5000);
  answers.push(service.post(PATH, { prompt: "a" }));
  const responses = await Promise.all(answers);
  await closed;
  assert.deepEqual(responses.map(({ status }) => status), [200, 503, 503]);
  for (const response of responses.slice(1)) {
    assert.ok(response.headers.get("retry-after"));
    assert.equal((await response.json()).error.code, "shutting_down");
  }
});

Deno.test("clients take turns by key where keys are asked for, else by address", async () => {
  for (const [apiKeys, expected] of [[[], ["a2", "b", "a3"]], [["k1", "k2"], ["b", "a2", "a3"]]]) {
    const engine = new FakeEngine();
    const allAreQueued = Promise.withResolvers<void>();
    const generate = engine.generate.bind(engine);
    engine.generate = async (...args) => {
      const frames = await generate(...args);
      await allAreQueued.promise;
      return frames;
    };
    await using service = await testService({ engine, settings: { apiKeys: apiKeys! } });
    const post = async (prompt: string, key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      await (await service.post("/v1/images/generations", { prompt }, { headers })).body?.cancel();
    };
    const answers = [post("a1", "k1")];
    await until(() => service.queue.running.length > 0);
    for (const [prompt, key] of [["a2", "k1"], ["b", "k2"], ["a3", "k1"]] as const) {
      const before = service.queue.waiting;
      answers.push(post(prompt, key));
      await until(() => service.queue.waiting > before);
    }
    allAreQueued.resolve();
    await Promise.all(answers);
    assert.deepEqual(engine.requests.slice(1).map(({ prompt }) => prompt), expected);
  }
});
