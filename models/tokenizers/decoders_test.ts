import assert from "node:assert/strict";
import { readDecoder } from "./decoders.ts";
import { JsonReader } from "./json_fields.ts";

function decode(json: unknown, pieces: string[]): string {
  return readDecoder(new JsonReader("f.json", "decoder", json))(pieces).join("");
}

Deno.test("readDecoder() without a decoder puts spaces between pieces", () => {
  assert.deepEqual(readDecoder(undefined)(["a", "b"]), ["a b"]);
});

Deno.test("readDecoder() joins bytes to characters, and U+FFFD where they are none", () => {
  const bytes = { type: "ByteFallback" };
  assert.equal(decode(bytes, ["a", "<0xC3>", "<0xA9>", "b"]), "aéb");
  assert.equal(decode(bytes, ["<0xC3>", "a", "<0xE7>", "<0x8C>"]), "\ufffda\ufffd\ufffd");
  assert.equal(decode(bytes, ["<0xEF>", "<0xBB>", "<0xBF>"]), "\ufeff");
});

Deno.test("readDecoder() turns marks into spaces, those in front away where one was put there", () => {
  const metaspace = { type: "Metaspace", replacement: "▁" };
  assert.equal(decode(metaspace, ["▁a", "▁b"]), "a b");
  assert.equal(decode({ ...metaspace, prepend_scheme: "never" }, ["▁a", "▁b"]), " a b");
});

Deno.test("readDecoder() replaces, fuses and strips in the order of a sequence", () => {
  const sequence = {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 1 },
    ],
  };
  assert.equal(decode(sequence, ["▁▁a", "▁b▁", "▁"]), " a b ");
  const regex = { type: "Replace", pattern: { Regex: "\\s" }, content: "$&" };
  assert.equal(decode(regex, ["a b"]), "a$&b");
});
