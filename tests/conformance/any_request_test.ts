/** Random and damaged requests over every route: always an answer that explains itself, no more memory in the end. */

import { strict as assert } from "node:assert";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg } from "../../media/video/mod.ts";
import {
  imageEditFieldTable,
  imageFieldTable,
  videoFieldTable,
} from "../../server/contract/generation_fields.ts";
import { loraFieldTables } from "../../server/contract/lora_requests.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService, testService } from "../fakes/service.ts";

/** Requests of the gate, and of the whole run. */
const FEW = 300;
const MANY = 10_000;

/** How long a request may take until it counts as hanging, in milliseconds. */
const HANG_MS = 30_000;

/** What the process may grow by during the whole run, in bytes: 3 kB for each request. */
const MAX_GROWTH = 32 * 2 ** 20;

/** One request: where to, how, with what. */
interface AnyRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: BodyInit;
}

const ffmpeg = await findFfmpeg();
const { bytes: PNG } = await encodeImage(
  { width: 32, height: 32, data: new Uint8Array(32 * 32 * 3).fill(90) },
  { format: "png" },
);

const value = fc.oneof(
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom<unknown>(
      ...[null, true, "", "\0", "\ud800", "64x64", "65x64", "1e9x1e9", "1", "b64_json", "url"],
      ...["png", "webp", "T2I", "i2v", "__proto__", "/etc/passwd", "file:///etc/passwd"],
      ...["data:image/png;base64,AAAA", "http://127.0.0.1:1/a.png", 0, -1, 1, 2, 5, 16, 64, 0.5],
      ...[1e308, 2 ** 53, [], [1, 2], {}, "ultrafast", "exact", "high"],
    ),
  },
);

/** Mostly what is known, with a prompt and few steps, so that some of it is accepted. */
function bodyOf(known: readonly string[]): fc.Arbitrary<Record<string, unknown>> {
  const name = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...known, "extra_body", "extra_params") },
    { weight: 1, arbitrary: fc.string() },
  );
  const fields = fc.dictionary(name, value, { maxKeys: 5 });
  const usual = fc.constantFrom<Record<string, unknown>>(
    {},
    { prompt: "a", num_inference_steps: 1 },
    { prompt: "a", num_inference_steps: 1, size: "32x32", num_frames: 1 },
  );
  return fc.tuple(usual, fields).map(([before, after]) => ({ ...before, ...after }));
}

/** A text with a part of it cut, doubled or replaced. */
function mutated(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(text, fc.nat(), fc.nat(40), fc.string({ maxLength: 8 })).map(
    ([whole, at, length, other]) => {
      const start = at % (whole.length + 1);
      return whole.slice(0, start) + other + whole.slice(start + length);
    },
  );
}

const JSON_HEADERS = { "content-type": "application/json" };

function json(path: string, known: readonly string[]): fc.Arbitrary<AnyRequest> {
  const text = bodyOf(known).map((body) => JSON.stringify(body));
  return fc.oneof({ weight: 3, arbitrary: text }, mutated(text), fc.string())
    .map((body) => ({ method: "POST", path, headers: JSON_HEADERS, body }));
}

function form(
  path: string,
  known: readonly string[],
  files: readonly string[],
): fc.Arbitrary<AnyRequest> {
  const file = fc.constantFrom(PNG, PNG.slice(0, 60), new Uint8Array(0), new Uint8Array(99));
  const parts = fc.record({
    fields: bodyOf(known),
    files: fc.array(fc.tuple(fc.constantFrom(...files), file), { maxLength: 3 }),
    boundary: fc.constantFrom("b", "b", "b", "c", '"', ""),
    cut: fc.oneof(fc.constant(0), fc.constant(0), fc.nat(200)),
  });
  return parts.map(({ fields, files, boundary, cut }) => {
    const encoder = new TextEncoder();
    const head = (name: string, more = "") =>
      `--b\r\ncontent-disposition: form-data; name="${name.replaceAll(/["\r\n]/g, "")}"${more}\r\n`;
    const chunks = [
      ...Object.entries(fields).map(([name, value]) =>
        encoder.encode(
          `${head(name)}\r\n${typeof value === "string" ? value : JSON.stringify(value)}\r\n`,
        )
      ),
      ...files.flatMap(([name, bytes]) => [
        encoder.encode(`${head(name, '; filename="../a.png"')}content-type: image/png\r\n\r\n`),
        bytes,
        encoder.encode("\r\n"),
      ]),
      encoder.encode("--b--\r\n"),
    ];
    const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
    let offset = 0;
    for (const chunk of chunks) {
      whole.set(chunk, offset);
      offset += chunk.length;
    }
    const contentType = `multipart/form-data; boundary=${boundary}`;
    const body = whole.slice(0, Math.max(0, whole.length - cut));
    return { method: "POST", path, headers: { "content-type": contentType }, body };
  });
}

const method = fc.constantFrom("GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS");

/** `%ID%` is the newest video's id, or an invented one before there is any. */
const path = fc.oneof(
  fc.constantFrom(
    ...["/v1/videos", "/v1/videos/%ID%", "/v1/videos/%ID%/content", "/v1/videos/%ID%/cancel"],
    ...["/v1/videos/%ID%/events", "/v1/images/%ID%/content", "/v1/jobs", "/v1/models"],
    ...["/v1/models/gradients", "/health", "/health_generate", "/model_info", "/server_info"],
    ...["/", "/v1/images/edits", "/v1/images/generations", "/v1/meshes"],
    ...["/v1/set_lora", "/v1/merge_lora_weights", "/v1/unmerge_lora_weights", "/v1/list_loras"],
    ...["/v1/images/..%2f..%2fetc%2fpasswd/content", "/v1/videos/%00/content", "/v1/videos/%ff"],
  ),
  fc.webPath().map((text) => `/${text}`),
);

const query = fc.oneof(
  fc.constant(""),
  fc.tuple(fc.constantFrom("limit", "after", "order", "variant", "x"), fc.string()).map(
    ([name, text]) => `?${name}=${encodeURIComponent(text.toWellFormed())}`,
  ),
  fc.constantFrom("?limit=1", "?limit=-1", "?order=asc", "?variant=0", "?variant=1e9", "?after=x"),
);

const header = fc.constantFrom<Record<string, string>>(
  {},
  { range: "bytes=0-1" },
  { range: "bytes=9-1,3-" },
  { "if-none-match": "*" },
  { authorization: "Bearer x" },
  { "x-request-id": "a b\u00ff" },
  { origin: "http://localhost:1" },
);

const anywhere: fc.Arbitrary<AnyRequest> = fc.tuple(method, path, query, header).map((
  [method, path, query, headers],
) => ({ method, path: path + query, headers }));

const anyRequest = fc.oneof(
  json("/v1/images/generations", imageFieldTable.known),
  json("/v1/videos", videoFieldTable.known),
  json("/v1/set_lora", loraFieldTables.set.known),
  json("/v1/merge_lora_weights", loraFieldTables.merge.known),
  form("/v1/images/edits", imageEditFieldTable.known, ["image", "image[]", "mask", "other"]),
  form("/v1/videos", videoFieldTable.known, ["input_reference", "video_reference", "other"]),
  { weight: 3, arbitrary: anywhere },
);

/** Sends one, reads all of the answer, and checks it. */
async function check(service: TestService, request: AnyRequest, id: string): Promise<number> {
  const { path, ...init } = request;
  const hang = new AbortController();
  const timer = setTimeout(() => hang.abort(), HANG_MS);
  const { signal } = hang;
  const response = await service.get(path.replaceAll("%ID%", id), { ...init, signal });
  const text = await response.text();
  clearTimeout(timer);
  const { status } = response;
  assert.ok(!signal.aborted, `no answer within ${HANG_MS} ms`);
  // The queue is full, the server keeps nothing, or a hub does not answer: it says so.
  const isExplained = status < 500 ||
    ((status === 502 || status === 503) && isErrorBody(JSON.parse(text)));
  assert.ok(isExplained, `${status} ${text.slice(0, 500)}`);
  const isBare = init.method === "HEAD" || init.method === "OPTIONS";
  if (status >= 400 && !isBare) assert.ok(isErrorBody(JSON.parse(text)), text.slice(0, 500));
  assert.ok(response.headers.has("x-request-id"), "an answer can be named");
  return status;
}

/** Bytes that the process holds, garbage aside. */
function memory(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return Deno.memoryUsage().rss;
}

async function checkMany(count: number): Promise<{ statuses: Map<number, number>; grown: number }> {
  const engine = new FakeEngine({
    info: { supportedTasks: ["T2V", "T2I", "I2I", "I2V", "V2V"], maxImages: 2 },
  });
  await using service = await testService({ engine, ffmpeg, maxQueue: 1000 });
  const statuses = new Map<number, number>();
  const measured: number[] = [];
  let sent = 0;
  await fc.assert(
    fc.asyncProperty(anyRequest, async (request) => {
      const id = (await service.store.list({ kind: "video", limit: 1 }))[0]?.id ?? "video_none";
      const status = await check(service, request, id);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      // What the fake remembers is not the server's.
      engine.requests.length = 0;
      service.lines.length = 0;
      // Often, so that garbage never makes the heap grow; the first twentieth of the run fills caches.
      if (++sent % Math.ceil(count / 20) === 0) measured.push(memory());
    }),
    { numRuns: count },
  );
  return { statuses, grown: measured.at(-1)! - measured[0]! };
}

Deno.test("any request to any route is answered, and every refusal explains itself", async () => {
  const { statuses } = await checkMany(FEW);
  for (const status of [200, 400, 404, 405, 422]) {
    assert.ok(statuses.has(status), `the requests reach status ${status}`);
  }
});

Deno.test({
  name: `${MANY} requests of any kind leave the server no larger; minutes, with DENOISE_SLOW`,
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const { statuses, grown } = await checkMany(MANY);
    console.log(`statuses ${JSON.stringify(Object.fromEntries(statuses))}, ${grown} bytes more`);
    assert.ok(grown < MAX_GROWTH, `the process grew by ${grown} bytes`);
  },
});
