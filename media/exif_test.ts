import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { applyOrientation, EXIF_PREFIX, readExif, writeExif } from "./exif.ts";

Deno.test("readExif() gives back the texts of writeExif()", () => {
  assert.deepEqual(readExif(writeExif({})), {});
  for (const text of ["a", "odd", "水彩画 🎨\n", '{"seed":"1"}', "x".repeat(30_000)]) {
    for (
      const texts of [
        { comment: text },
        { note: text },
        { software: text, comment: "a", note: text },
      ]
    ) {
      assert.deepEqual(readExif(writeExif(texts)), texts);
      assert.deepEqual(
        readExif(Buffer.concat([Buffer.from(EXIF_PREFIX), writeExif(texts)])),
        texts,
      );
    }
  }
});

Deno.test("readExif() reads a comment whose byte order is not that of the structure", () => {
  const structure = writeExif({ comment: "水 a fox" });
  const start = structure.length - 2 * "水 a fox".length;
  for (let i = start; i < structure.length; i += 2) structure.subarray(i, i + 2).reverse();
  assert.deepEqual(readExif(structure), { comment: "水 a fox" });
});

Deno.test("readExif() takes no other program's MakerNote", () => {
  const structure = writeExif({ comment: "a", note: "b" });
  structure[structure.indexOf("d".charCodeAt(0))] = "D".charCodeAt(0);
  assert.deepEqual(readExif(structure), { comment: "a" });
});

Deno.test("readExif() finds the orientation in either byte order", () => {
  const big = Uint8Array.of(
    0x4d,
    0x4d,
    0,
    42,
    0,
    0,
    0,
    8,
    0,
    1,
    1,
    0x12,
    0,
    3,
    0,
    0,
    0,
    1,
    0,
    6,
    0,
    0,
  );
  const little = Uint8Array.of(
    ...[0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0],
    ...[0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0],
  );
  assert.deepEqual(readExif(big), { orientation: 6 });
  assert.deepEqual(readExif(little), { orientation: 6 });
  little[18] = 9;
  assert.deepEqual(readExif(little), {});
});

Deno.test("readExif() takes any bytes without throwing", () => {
  const whole = writeExif({ comment: "a comment" });
  for (let length = 0; length < whole.length; length++) {
    assert.equal(readExif(whole.subarray(0, length)).comment, undefined);
  }
  for (let i = 0; i < whole.length; i++) {
    const damaged = whole.slice();
    damaged[i] = 0xff;
    readExif(damaged);
  }
});

Deno.test("applyOrientation() turns a 3x2 image as EXIF says", () => {
  // Stored rows "abc" and "def"; each line is the upright image for one orientation.
  const upright = [
    "abc/def",
    "cba/fed",
    "fed/cba",
    "def/abc",
    "ad/be/cf",
    "da/eb/fc",
    "fc/eb/da",
    "cf/be/ad",
  ];
  const data = new TextEncoder().encode("aaabbbcccdddeeefff");
  upright.forEach((expected, index) => {
    const turned = applyOrientation({ width: 3, height: 2, data }, index + 1);
    const letters = Array.from(turned.data, (byte) => String.fromCharCode(byte))
      .filter((_, i) => i % 3 === 0);
    const rows = Array.from(
      { length: turned.height },
      (_, y) => letters.slice(y * turned.width, (y + 1) * turned.width).join(""),
    );
    assert.equal(rows.join("/"), expected, `orientation ${index + 1}`);
  });
  for (const orientation of [0, 9, 1.5]) {
    assert.throws(() => applyOrientation({ width: 3, height: 2, data }, orientation), RangeError);
  }
});
