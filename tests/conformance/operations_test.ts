/** Metrics and the log: what whoever runs the server sees. */

import { strict as assert } from "node:assert";
import { createLog, type LogFields } from "../../server/log.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";

const SECRET = "a secret lighthouse";

Deno.test("GET /metrics is a 404 that says how to turn it on", async () => {
  await using service = await testService();
  const response = await service.get("/metrics");
  assert.equal(response.status, 404);
  const body = await response.json();
  assert.ok(isErrorBody(body));
  assert.match(body.error.message, /start the server with --enable-metrics/);
});

Deno.test("GET /metrics counts requests by pattern, and jobs by kind and status", async () => {
  await using service = await testService({ settings: { enableMetrics: true } });
  await service.post("/v1/images/generations", { prompt: "a" });
  await service.post("/v1/images/generations", { prompt: 1 });
  const { id } = await (await service.post("/v1/videos", { prompt: "a" })).json();
  await until(async () => (await service.store.get(id))?.status === "completed");
  await service.get(`/v1/videos/${id}`);
  await service.get("/v1/videos/unknown");
  for (let path = 0; path < 20; path++) await service.get(`/nowhere/${path}`);
  await service.get("/liveness", { method: "BREW" });

  const response = await service.get("/metrics");
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  for (
    const line of [
      'denoise_http_requests_total{route="/v1/images/generations",method="POST",status="200"} 1',
      'denoise_http_requests_total{route="/v1/images/generations",method="POST",status="422"} 1',
      'denoise_http_requests_total{route="/v1/videos/:id",method="GET",status="200"} 1',
      'denoise_http_requests_total{route="/v1/videos/:id",method="GET",status="404"} 1',
      'denoise_http_requests_total{route="none",method="GET",status="404"} 20',
      'denoise_http_requests_total{route="/liveness",method="other",status="405"} 1',
      'denoise_http_request_duration_seconds_count{route="/v1/images/generations",method="POST"} 2',
      'denoise_jobs_ended_total{kind="image",status="completed"} 1',
      'denoise_jobs_ended_total{kind="video",status="completed"} 1',
      'denoise_job_duration_seconds_bucket{le="+Inf",kind="video"} 1',
      'denoise_jobs{kind="image",status="completed"} 1',
      "denoise_queue_waiting 0",
      "denoise_queue_running 0",
      "denoise_queue_places 1",
      "denoise_queue_oldest_age_seconds 0",
      'denoise_job_wait_seconds_count{kind="image"} 1',
      'denoise_job_stage_duration_seconds_count{kind="image",stage="denoise"} 1',
      'denoise_job_stage_duration_seconds_count{kind="video",stage="store"} 1',
      "denoise_model_ready 1",
      `denoise_device_memory_peak_bytes ${64 * 48 * 12}`,
    ]
  ) {
    assert.ok(text.includes(`\n${line}\n`), `${line}\nis not in\n${text}`);
  }
  assert.ok(!text.includes("nowhere") && !text.includes(id), "clients make no labels");
});

Deno.test("GET /metrics tells how long the queue waits, and why jobs fail", async () => {
  const engine = new FakeEngine({ stepMs: 20 });
  await using service = await testService({ engine, settings: { enableMetrics: true } });
  const metric = async (name: string) => {
    const text = await (await service.get("/metrics")).text();
    return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
  };
  const headers = { prefer: "respond-async" };
  await service.post("/v1/images/generations", { prompt: "a" }, { headers });
  await service.post("/v1/images/generations", { prompt: "a" }, { headers });
  await until(async () => await metric("denoise_queue_oldest_age_seconds") >= 0.03);
  await until(() => service.queue.waiting + service.queue.running.length === 0);
  assert.equal(await metric("denoise_queue_oldest_age_seconds"), 0);

  const failure = new Error("the shader broke");
  const options = { engine: new FakeEngine({ failure }), settings: { enableMetrics: true } };
  await using broken = await testService(options);
  await broken.post("/v1/images/generations", { prompt: "a" });
  const text = await (await broken.get("/metrics")).text();
  assert.match(text, /^denoise_job_failures_total\{kind="image",code="internal_error"\} 1$/m);
});

Deno.test("GET /metrics is in the format of Prometheus: help, type, samples", async () => {
  await using service = await testService({ settings: { enableMetrics: true } });
  await service.post("/v1/images/generations", { prompt: "a" });
  const text = await (await service.get("/metrics")).text();
  let family = "";
  for (const line of text.trimEnd().split("\n")) {
    const [, help] = /^# HELP (\w+) \S.*$/.exec(line) ?? [];
    const [, type] = /^# TYPE (\w+) (?:counter|gauge|histogram)$/.exec(line) ?? [];
    if (line === "") continue;
    if (help) family = help;
    else if (type) assert.equal(type, family);
    else {
      assert.match(line, /^\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})? (?:\d+(?:\.\d+)?(?:e-?\d+)?)$/);
      assert.ok(line.startsWith(family), line);
    }
  }
});

Deno.test("the log names requests and jobs, and no prompt", async () => {
  const logs: { message: string; fields: LogFields }[] = [];
  await using service = await testService({
    log: (message, fields = {}) => logs.push({ message, fields }),
  });
  const headers = { "x-request-id": "mine" };
  const body = { prompt: SECRET, negative_prompt: SECRET };
  const response = await service.post("/v1/images/generations", body, { headers });
  const { id } = await response.json();
  const ended = logs.find(({ fields }) => fields.job === id && fields.kind === "image");
  assert.match(ended!.message, new RegExp(`^${id} completed after \\d+\\.\\d s$`));
  assert.equal(ended!.fields.status, "completed");
  const { fields, message } = logs.find(({ fields }) => fields.request_id === "mine")!;
  assert.match(message, /^POST \/v1\/images\/generations 200 \d+ ms mine$/);
  const { ms, ...rest } = fields;
  assert.ok(Number.isInteger(ms));
  assert.deepEqual(rest, {
    level: "info",
    request_id: "mine",
    method: "POST",
    path: "/v1/images/generations",
    status: 200,
    job: id,
  });
  await service.post("/v1/videos", { prompt: SECRET, size: SECRET, [SECRET]: 1 });
  await service.post("/v1/videos", { prompt: SECRET, secrets: 1 });
  await service.get(`/v1/videos?after=${encodeURIComponent(SECRET)}`);
  assert.ok(!JSON.stringify(logs).includes(SECRET));
});

Deno.test("the log tells why a job failed, as an error", async () => {
  const logs: LogFields[] = [];
  await using service = await testService({
    engine: new FakeEngine({ failure: new Error("the shader broke") }),
    log: (message, fields = {}) => logs.push({ ...fields, kind: message }),
  });
  await service.post("/v1/images/generations", { prompt: SECRET });
  const errors = logs.filter(({ level }) => level === "error");
  assert.equal(errors.length, 3, JSON.stringify(logs));
  assert.ok(errors.some(({ kind }) => kind?.includes("the shader broke")));
});

Deno.test("createLog() writes sentences, or one JSON object a line", () => {
  const lines: string[] = [];
  createLog("text", (line) => lines.push(line))("Hello", { status: 200 });
  createLog("json", (line) => lines.push(line))("Two\nlines", { level: "warning", ms: 3 });
  createLog("json", (line) => lines.push(line))("Plain");
  assert.equal(lines[0], "Hello");
  const { time, ...rest } = JSON.parse(lines[1]!);
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
  assert.deepEqual(rest, { level: "warning", message: "Two\nlines", ms: 3 });
  assert.ok(!lines[1]!.includes("\n"));
  assert.equal(JSON.parse(lines[2]!).level, "info");
});
