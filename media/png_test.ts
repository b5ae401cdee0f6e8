import { strict as assert } from "node:assert";
import { deflateSync } from "node:zlib";
import { noise, SIZES, slopes } from "../tests/support/pixels.ts";
import { ImageError, type PixelImage } from "./image.ts";
import { encodePng, pngChunks, readPngText } from "./png.ts";
import { decodePng, readPngHeader } from "./png_decode.ts";

const pixel: PixelImage = { width: 1, height: 1, data: Uint8Array.of(1, 2, 3) };

Deno.test("encodePng() then decodePng() gives the same pixels", () => {
  for (const [width, height] of SIZES) {
    for (const image of [noise(width, height), noise(width, height, 4), slopes(width, height)]) {
      assert.deepEqual(decodePng(encodePng(image)), image);
    }
  }
});

Deno.test("readPngText() gives back what encodePng() was told", () => {
  const text = {
    "prompt": "a café at 5 °C,\nrainy",
    "Title": "",
    "negative prompt": "水彩画, 低品质 🎨 e\u0301",
    "parameters": JSON.stringify({ seed: 2 ** 53, steps: 8 }),
    "__proto__x": "x".repeat(100_000),
  };
  const file = encodePng(pixel, { text });
  assert.deepEqual(readPngText(file), text);
  assert.deepEqual(decodePng(file), pixel);
  const types = [...pngChunks(file)].map(({ type }) => type);
  assert.deepEqual(types, ["IHDR", "tEXt", "tEXt", "iTXt", "tEXt", "tEXt", "IDAT", "IEND"]);
});

Deno.test("readPngText() reads compressed text and bounds it", () => {
  const file = encodePng(pixel);
  const note = new TextEncoder().encode("naïve — 好");
  const inserted = (type: string, ...parts: (string | Uint8Array)[]) => insert(file, type, parts);
  assert.deepEqual(
    readPngText(inserted("zTXt", "a\0\0", deflateSync(Uint8Array.of(0x63, 0xe9)))),
    { a: "cé" },
  );
  assert.deepEqual(
    readPngText(inserted("iTXt", "b\0\x01\0de\0Notiz\0", deflateSync(note))),
    { b: "naïve — 好" },
  );
  const bomb = deflateSync(new Uint8Array(2 ** 24));
  assert.throws(() => readPngText(inserted("zTXt", "c\0\0", bomb)), ImageError);
  assert.throws(() => readPngText(inserted("zTXt", "c\0\0", "not zlib")), ImageError);
});

Deno.test("encodePng() refuses keywords and texts that PNG cannot hold", () => {
  for (const keyword of ["", " a", "a ", "a\nb", "ключ", "k".repeat(80)]) {
    assert.throws(() => encodePng(pixel, { text: { [keyword]: "x" } }), TypeError, keyword);
  }
  assert.throws(() => encodePng(pixel, { text: { a: "x\0y" } }), /contains a NUL character$/);
});

Deno.test("readPngHeader() reads the header and refuses what is none", () => {
  const file = encodePng(noise(3, 5, 4));
  const expected = { width: 3, height: 5, bitDepth: 8, colorType: 6, interlaced: false };
  assert.deepEqual(readPngHeader(file), expected);
  assert.deepEqual(readPngHeader(file.subarray(0, 33)), expected);
  const damaged = file.slice();
  damaged[20] = damaged[20]! ^ 1;
  assert.throws(() => readPngHeader(damaged), /intact IHDR/);
});

Deno.test("decodePng() refuses damage in every byte of the pixel data", () => {
  const file = encodePng(noise(3, 5));
  for (let i = 8; i < file.length - 4; i++) {
    const damaged = file.slice();
    damaged[i] = damaged[i]! ^ 0x10;
    assert.throws(() => decodePng(damaged), ImageError, `byte ${i}`);
  }
});

Deno.test("decodePng() says of a chunk without a valid name that it is one, in one line", () => {
  const file = encodePng(pixel);
  const chunk = chunkOf("\n\0AT", []);
  chunk[11] = chunk[11]! ^ 1;
  const damaged = Uint8Array.from([...file.subarray(0, 33), ...chunk, ...file.subarray(33)]);
  assert.throws(() => decodePng(damaged), {
    message: "Cannot read PNG: the checksum of a chunk without a valid name is wrong",
  });
});

Deno.test("decodePng() refuses a file that unpacks to more or less than its header says", () => {
  const file = encodePng(pixel);
  const head = file.slice(0, 33);
  const end = file.slice(-12);
  for (const size of [0, 3, 5, 2 ** 24]) {
    const idat = chunkOf("IDAT", [deflateSync(new Uint8Array(size))]);
    const whole = Uint8Array.from([...head, ...idat, ...end]);
    assert.throws(() => decodePng(whole), ImageError, `${size} bytes`);
  }
});

/** The file with a chunk put after its header. */
function insert(file: Uint8Array, type: string, parts: (string | Uint8Array)[]): Uint8Array {
  return Uint8Array.from([...file.subarray(0, 33), ...chunkOf(type, parts), ...file.subarray(33)]);
}

function chunkOf(type: string, parts: (string | Uint8Array)[]): Uint8Array {
  const bytes = parts.flatMap((part) =>
    typeof part === "string" ? Array.from(part, (c) => c.charCodeAt(0)) : [...part]
  );
  // An encoder of its own, so that the reader is not only tested against its twin: bitwise CRC.
  const body = [...Array.from(type, (c) => c.charCodeAt(0)), ...bytes];
  let crc = 0xffffffff;
  for (const byte of body) {
    crc ^= byte;
    for (let k = 0; k < 8; k++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  const out = new Uint8Array(body.length + 8);
  const view = new DataView(out.buffer);
  view.setUint32(0, bytes.length);
  out.set(body, 4);
  view.setUint32(body.length + 4, ~crc >>> 0);
  return out;
}

Deno.test("readPngText() bounds the texts of a file together, packed or not", () => {
  const half = new Uint8Array(2 ** 19 + 1).fill(0x61);
  for (const second of [["tEXt", "b\0", half], ["zTXt", "b\0\0", deflateSync(half)]] as const) {
    const [type, ...parts] = second;
    const file = insert(encodePng(pixel), "tEXt", ["a\0", half]);
    assert.equal(readPngText(file)["a"]?.length, half.length);
    assert.throws(() => readPngText(insert(file, type, parts)), /more than 1048576 bytes/);
  }
});
