import assert from "node:assert/strict";
import { PieceTrie } from "./piece_trie.ts";

Deno.test("PieceTrie.get() finds every piece and nothing else, through many growths", () => {
  const pieces = Array.from({ length: 20_000 }, (_, i) => `▁${i.toString(36)}${i % 7 ? "猫" : ""}`);
  const trie = new PieceTrie(pieces.map((piece, i) => [piece, i] as const));
  pieces.forEach((piece, i) => assert.equal(trie.get(piece), i));
  assert.equal(trie.get("▁"), -1);
  assert.equal(trie.get("nowhere"), -1);
  assert.equal(trie.get(""), -1);
});

Deno.test("PieceTrie.longestAt() gives the longest piece at a position", () => {
  const trie = new PieceTrie([["a", 0], ["abc", 1], ["b", 2]]);
  assert.deepEqual(trie.longestAt("xabcd", 1), { value: 1, end: 4 });
  assert.deepEqual(trie.longestAt("xabd", 1), { value: 0, end: 2 });
  assert.equal(trie.longestAt("xabd", 0), undefined);
  assert.equal(trie.longestAt("", 0), undefined);
});

Deno.test("PieceTrie keeps the later of two equal pieces", () => {
  assert.equal(new PieceTrie([["a", 0], ["a", 1]]).get("a"), 1);
});
