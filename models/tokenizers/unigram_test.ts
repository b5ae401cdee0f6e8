import assert from "node:assert/strict";
import { Unigram, type UnigramOptions } from "./unigram.ts";

function model(pieces: Record<string, number>, options: Partial<UnigramOptions> = {}): Unigram {
  return new Unigram({
    pieces: ["<unk>", ...Object.keys(pieces)],
    scores: [0, ...Object.values(pieces)],
    unkId: 0,
    byteFallback: false,
    precision: "float64",
    ...options,
  });
}

Deno.test("Unigram.encode() takes the most probable segmentation, not the longest pieces", () => {
  const unigram = model({ a: -1, b: -1, c: -1, ab: -1.5, bc: -5, abc: -6 });
  assert.deepEqual(unigram.encode("abc"), [4, 3]);
});

Deno.test("Unigram.encode() keeps the first of two segmentations that are equally probable", () => {
  // "a" + "bc" reaches the end first from the earlier start, "ab" + "c" does not beat it.
  const unigram = model({ a: -1, b: -9, c: -1, ab: -2, bc: -2 });
  assert.deepEqual(unigram.encode("abc"), [1, 5]);
});

Deno.test("Unigram.encode() in float32 sees a tie where float64 sees a winner", () => {
  const pieces = { a: -1, bc: -2 - 1e-9, ab: -2, c: -1 };
  assert.deepEqual(model(pieces).encode("abc"), [3, 4]);
  assert.deepEqual(model(pieces, { precision: "float32" }).encode("abc"), [1, 2]);
  const reversed = { a: -1, bc: -2, ab: -2 + 1e-9, c: -1 };
  assert.deepEqual(model(reversed).encode("abc"), [3, 4]);
  assert.deepEqual(model(reversed, { precision: "float32" }).encode("abc"), [1, 2]);
});

Deno.test("Unigram.encode() fuses a run of unknown characters to one id", () => {
  assert.deepEqual(model({ a: -1 }).encode("xyazé😀"), [0, 1, 0]);
});

Deno.test("Unigram.encode() with byte fallback gives a run of unknown characters byte by byte", () => {
  const bytes = Object.fromEntries(
    Array.from(
      { length: 256 },
      (_, i) => [`<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`, 0],
    ),
  );
  const unigram = model({ ...bytes, a: -1 }, { byteFallback: true });
  assert.deepEqual(
    unigram.encode("é猫a"),
    [0xc3, 0xa9, 0xe7, 0x8c, 0xab].map((b) => b + 1).concat(257),
  );
});

Deno.test("Unigram.encode() without all bytes in the vocabulary falls back to the unknown id", () => {
  const unigram = model({ "<0xC3>": 0, a: -1 }, { byteFallback: true });
  assert.deepEqual(unigram.encode("é"), [0]);
});

Deno.test("Unigram.encode() always takes a user-defined piece", () => {
  const pieces = { a: -1, b: -1, abc: -100, c: -1 };
  const options = { userDefined: new Set([3]), precision: "float32" as const };
  assert.deepEqual(model(pieces, options).encode("abc"), [3]);
  assert.deepEqual(model(pieces).encode("abc"), [1, 2, 4]);
});

Deno.test("Unigram.encode() gives no ids for no text", () => {
  assert.deepEqual(model({ a: -1 }).encode(""), []);
});

Deno.test("Unigram.bytesOf() knows the pieces of bytes and no others, with byte fallback alone", () => {
  const fallback = model({}, { byteFallback: true });
  assert.deepEqual(fallback.bytesOf("<0x00>"), [0]);
  assert.deepEqual(fallback.bytesOf("<0xFF>"), [255]);
  for (const piece of ["<0xff>", "<0x1>", "0xFF", "<0xFF> ", "<0x100>"]) {
    assert.deepEqual([...fallback.bytesOf(piece)], [...new TextEncoder().encode(piece)]);
  }
  assert.deepEqual([...model({}).bytesOf("<0x41>")], [...new TextEncoder().encode("<0x41>")]);
});
