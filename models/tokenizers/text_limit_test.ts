import assert from "node:assert/strict";
import { JsonReader } from "./json_fields.ts";
import { readNormalizer } from "./normalizers.ts";
import { readPreTokenizer } from "./pre_tokenizers.ts";
import { MAX_TEXT_LENGTH, replaceLiteral, replaceMatches } from "./text_limit.ts";

const TOO_LONG = { name: "RangeError", message: /^Cannot encode the text: .* more than 1048576 / };

const reader = (json: unknown) => new JsonReader("f.json", "stage", json);

Deno.test("readNormalizer() ends a text that every step doubles, whatever the steps are", () => {
  for (
    const step of [
      { type: "Replace", pattern: { String: "z" }, content: "zz" },
      { type: "Replace", pattern: { Regex: "z" }, content: "zz" },
      { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "z".repeat(500_000) }] },
    ]
  ) {
    const normalizers = Array.from({ length: 40 }, () => step);
    const normalize = readNormalizer(reader({ type: "Sequence", normalizers }));
    assert.equal(normalize(""), "");
    assert.throws(() => normalize("z"), TOO_LONG);
  }
});

Deno.test("readPreTokenizer() ends a text that every ByteLevel doubles", () => {
  const pretokenizers = Array.from({ length: 40 }, () => ({ type: "ByteLevel" }));
  const cut = readPreTokenizer(reader({ type: "Sequence", pretokenizers }));
  assert.throws(() => cut({ text: "é", first: true }), TOO_LONG);
});

Deno.test("replaceLiteral() and replaceMatches() make no text that is too long", () => {
  const long = "z".repeat(MAX_TEXT_LENGTH / 2);
  for (
    const make of [
      (to: string) => replaceLiteral("z", to),
      (to: string) => replaceMatches(/z/gu, to),
    ]
  ) {
    assert.equal(make("ab")(long).length, MAX_TEXT_LENGTH);
    assert.throws(() => make("abc")(long), TOO_LONG);
    assert.throws(() => make(long)(long), TOO_LONG);
  }
  assert.equal(replaceLiteral("", "x")("ab"), "ab");
  assert.equal(replaceLiteral("a", "$&")("a.a"), "$&.$&");
});
