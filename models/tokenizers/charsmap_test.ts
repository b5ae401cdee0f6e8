import assert from "node:assert/strict";
import { tokenizerGoldens } from "../../tests/support/tokenizer_goldens.ts";
import { Charsmap } from "./charsmap.ts";

const root = tokenizerGoldens();

function nmtNfkc(): Charsmap {
  const json = JSON.parse(Deno.readTextFileSync(new URL("t5/tokenizer.json", root)));
  return new Charsmap(Uint8Array.fromBase64(json.normalizer.precompiled_charsmap));
}

Deno.test("Charsmap.normalize() takes the longest rule at every position", () => {
  const charsmap = nmtNfkc();
  assert.equal(charsmap.normalize("e\u0301"), "é");
  assert.equal(charsmap.normalize("a\u0308\u0301"), "ä\u0301");
  assert.equal(charsmap.normalize("ｶﾞ"), "ガ");
  assert.equal(charsmap.normalize("㍿"), "株式会社");
});

Deno.test("Charsmap.normalize() removes controls and turns odd white space into spaces", () => {
  const charsmap = nmtNfkc();
  assert.equal(charsmap.normalize("a\u0001b"), "ab");
  assert.equal(charsmap.normalize("a\u00a0\u3000\u200bb\n"), "a   b ");
});

Deno.test("Charsmap.normalize() leaves other characters alone, a byte order mark among them", () => {
  const charsmap = new Charsmap(Uint8Array.of(4, 0, 0, 0, 0, 4, 0, 0));
  for (const text of ["", "a猫😀\u{10ffff}", "\ufeffa", "\u0000"]) {
    assert.equal(charsmap.normalize(text), text);
  }
});

Deno.test("Charsmap refuses bytes that hold no double array", () => {
  for (const bytes of [[], [1], [8, 0, 0, 0, 1], [3, 0, 0, 0, 1, 2, 3], [0, 0, 0, 0]]) {
    assert.throws(() => new Charsmap(Uint8Array.from(bytes)), /Cannot read precompiled_charsmap/);
  }
});
