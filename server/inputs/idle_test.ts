import { strict as assert } from "node:assert";
import { ApiError } from "../contract/errors.ts";
import { limitIdle } from "./idle.ts";

Deno.test("limitIdle() passes on what comes, however long it takes altogether", async () => {
  async function* slowly() {
    for (let byte = 0; byte < 5; byte++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      yield Uint8Array.of(byte);
    }
  }
  const bytes = await new Response(limitIdle(ReadableStream.from(slowly()), 2000)).bytes();
  assert.deepEqual(bytes, Uint8Array.of(0, 1, 2, 3, 4));
});

Deno.test("limitIdle() gives up with 408 when nothing comes, and lets go of the sender", async () => {
  let reason: unknown;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(Uint8Array.of(1)),
    cancel: (why) => void (reason = why),
  });
  const reader = limitIdle(body, 5).getReader();
  assert.deepEqual((await reader.read()).value, Uint8Array.of(1));
  await assert.rejects(reader.read(), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 408);
    assert.match(error.message, /nothing came for 0\.005 s; send the request again$/);
    return true;
  });
  assert.ok(reason instanceof ApiError);
});
