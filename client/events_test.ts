import { strict as assert } from "node:assert";
import { readEvents } from "./events.ts";

Deno.test("readEvents() gives events however they are cut, and leaves comments out", async () => {
  const text =
    ': hello\n\nevent: status\ndata: {"id":1}\n\nevent: progress\r\ndata: {"é":\r\ndata: 2}\r\n\r\n' +
    "data: 3\n\ndata: never ended";
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, 1000]) {
    const parts = Array.from(
      { length: Math.ceil(bytes.length / size) },
      (_, i) => bytes.slice(i * size, (i + 1) * size),
    );
    const events = await Array.fromAsync(readEvents(ReadableStream.from(parts)));
    assert.deepEqual(events, [
      { event: "status", data: { id: 1 } },
      { event: "progress", data: { "é": 2 } },
      { event: "message", data: 3 },
    ]);
  }
});
