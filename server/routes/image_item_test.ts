import assert from "node:assert/strict";
import { Base64, base64Json } from "./image_item.ts";

Deno.test("base64Json() gives the JSON of a value, and its length", async () => {
  const file = crypto.getRandomValues(new Uint8Array(65_536));
  const large = new Uint8Array(2_000_001);
  for (let at = 0; at < large.length; at += file.length) {
    large.set(file.subarray(0, large.length - at), at);
  }
  for (const bytes of [new Uint8Array(0), Uint8Array.of(1), file.subarray(5, 25), large]) {
    const files = [{ b64_json: new Base64(bytes), url: null }, { b64_json: new Base64(file) }];
    const { body, headers } = base64Json({ id: 'a "quoted" ä', data: files, last: [1, null] });
    const text = await new Response(body).text();
    assert.equal(String(new TextEncoder().encode(text).length), headers["content-length"]);
    assert.deepEqual(JSON.parse(text), {
      id: 'a "quoted" ä',
      data: [{ b64_json: bytes.toBase64(), url: null }, { b64_json: file.toBase64() }],
      last: [1, null],
    });
  }
});

Deno.test("base64Json() makes no more than is read", async () => {
  const file = new Base64(new Uint8Array(64 * 2 ** 20));
  const start = performance.now();
  const reader = base64Json({ a: file, b: file, c: file }).body.getReader();
  await reader.read();
  await reader.read();
  await reader.cancel();
  assert.ok(performance.now() - start < 500);
});
