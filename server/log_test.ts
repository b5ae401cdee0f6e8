import { strict as assert } from "node:assert";
import type { Engine } from "../engine/types.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { testService } from "../tests/fakes/service.ts";
import { createApp } from "./app.ts";
import { createLog, LineWriter } from "./log.ts";

/** A line break, codes for a terminal in both forms, and an override of the direction of writing. */
const HOSTILE = "\n\r\x1b[31m\x9b31m\u202e\u2028\x07\0\x7f";
// deno-lint-ignore no-control-regex
const CONTROLS = /[\0-\x1f\x7f-\x9f\u2028-\u202e]/;

for (const format of ["text", "json"] as const) {
  Deno.test(`createLog() as ${format} writes control characters as escapes`, () => {
    const lines: string[] = [];
    createLog(format, (line) => lines.push(line))(`a${HOSTILE}b`, { path: `/${HOSTILE}` });
    assert.equal(lines.length, 1);
    assert.doesNotMatch(lines[0]!, CONTROLS);
    assert.match(lines[0]!, /a\\n|a\\u000a/);
  });
}

Deno.test("createLog() as text writes where an error came from, and not its message once more", () => {
  const lines: string[] = [];
  const stack = "Error: x\nListening on http://evil\n    at f (a.ts:1)\n    at \x1b[31mg\n";
  createLog("text", (line) => lines.push(line))("It failed", { stack });
  assert.deepEqual(lines, ["It failed", "    at f (a.ts:1)", "    at \\u001b[31mg"]);
});

Deno.test("requests are answered though their lines cannot be written", async () => {
  const log = createLog("text", () => {
    throw new Error("No space left on device");
  });
  await using service = await testService({ log });
  assert.equal((await service.get("/health")).status, 200);
  assert.equal((await service.get("/v1/models")).status, 200);
});

Deno.test("a path of a request writes no line of its own into the log", async () => {
  const lines: string[] = [];
  await using service = await testService({ log: createLog("text", (line) => lines.push(line)) });
  const path = "/x%0aListening%20on%20http://evil%1b%5b31m";
  await (await service.get(path)).body?.cancel();
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^GET \/x\\u000aListening on http:\/evil\\u001b\[31m 404 /);
});

/** A writer, the lines that came through, and the drops that it told of. */
function writer(write: (text: string) => Promise<void>) {
  const dropped: number[] = [];
  const lines = new LineWriter(async (bytes) => {
    await write(new TextDecoder().decode(bytes));
    return bytes.length;
  }, (count) => dropped.push(count));
  return { lines, dropped };
}

Deno.test("LineWriter writes lines in their order", async () => {
  let written = "";
  const { lines } = writer((text) => {
    written += text;
    return Promise.resolve();
  });
  for (const text of ["a", "b", "c"]) lines.line(text);
  await lines.flush();
  lines.line("d");
  await lines.flush();
  assert.equal(written, "a\nb\nc\nd\n");
});

Deno.test("LineWriter goes on where nothing can be written, and counts what it dropped", async () => {
  let isFull = true;
  let written = "";
  const { lines, dropped } = writer((text) => {
    if (isFull) return Promise.reject(new Error("No space left on device"));
    written += text;
    return Promise.resolve();
  });
  for (let i = 0; i < 3; i++) {
    lines.line("lost");
    await lines.flush();
  }
  isFull = false;
  lines.line("kept");
  await lines.flush();
  assert.deepEqual([written, dropped], ["kept\n", [3]]);
});

Deno.test("LineWriter holds a bounded number of lines for a pipe that nobody reads", async () => {
  const reader = Promise.withResolvers<void>();
  const { lines, dropped } = writer(() => reader.promise);
  for (let i = 0; i < 10_000; i++) lines.line("x".repeat(1000));
  const start = performance.now();
  await lines.flush();
  assert.ok(performance.now() - start < 5000, "flush() gives up");
  reader.resolve();
  await lines.flush();
  const [count = 0] = dropped;
  assert.ok(count > 8900 && count < 9000, `${count}`);
});

Deno.test("the log says once that a model is loading, however often a page asks", async () => {
  const lines: string[] = [];
  const loading = Promise.withResolvers<Engine>();
  const app = createApp({ engine: loading.promise, log: (line) => void lines.push(line) });
  const ask = async (path: string) => (await (await app.request(path)).body?.cancel());
  for (let i = 0; i < 3; i++) for (const path of ["/health", "/v1/models"]) await ask(path);
  assert.deepEqual(lines.map((line) => line.replace(/ \d+ ms .*/, "")), [
    "GET /health 503",
    "GET /v1/models 503",
  ]);
  loading.resolve(new FakeEngine());
  await loading.promise;
  for (let i = 0; i < 2; i++) await ask("/health");
  assert.equal(lines.filter((line) => line.startsWith("GET /health 200")).length, 2);
});
