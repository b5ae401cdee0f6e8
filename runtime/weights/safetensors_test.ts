import { openFile } from "../../platform/mod.ts";
import assert from "node:assert/strict";
import { FORMAT_BITS, readSafetensorsHeader, type SafetensorsHeader } from "./safetensors.ts";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";

/** Reads the header of a file with these bytes. */
function read(bytes: Uint8Array): SafetensorsHeader {
  return withFolder({ "x.safetensors": bytes }, (folder) => {
    using file = openFile(`${folder}/x.safetensors`);
    return readSafetensorsHeader(file, "x.safetensors");
  });
}

function assertRefused(bytes: Uint8Array, message: RegExp): void {
  assert.throws(() => read(bytes), (error) => {
    assert.ok(error instanceof SyntaxError, String(error));
    assert.match(error.message, /^Cannot read "x\.safetensors": /);
    assert.match(error.message, message);
    return true;
  });
}

const float = (begin: number, end: number, shape = [(end - begin) / 4]) => ({
  dtype: "F32",
  shape,
  data_offsets: [begin, end],
});

Deno.test("readSafetensorsHeader() gives names, types, shapes and places", () => {
  const header = {
    __metadata__: { format: "pt" },
    a: float(0, 8, [2, 1]),
    "b.c": { dtype: "BF16", shape: [3], data_offsets: [8, 14] },
    scalar: { dtype: "I64", shape: [], data_offsets: [14, 22] },
    empty: { dtype: "F16", shape: [0, 4], data_offsets: [22, 22] },
  };
  const bytes = encodeSafetensors(header, new Uint8Array(22));
  const dataStart = bytes.byteLength - 22;
  const { tensors, metadata } = read(bytes);
  assert.deepEqual(metadata, { format: "pt" });
  assert.deepEqual([...tensors.keys()], ["a", "b.c", "scalar", "empty"]);
  assert.deepEqual(tensors.get("b.c"), {
    name: "b.c",
    format: "BF16",
    shape: [3],
    byteOffset: dataStart + 8,
    byteLength: 6,
  });
  assert.equal(tensors.get("scalar")!.byteLength, 8);
  assert.equal(tensors.get("empty")!.byteLength, 0);
});

Deno.test("readSafetensorsHeader() refuses files that are empty or end early", () => {
  const whole = encodeSafetensors({ a: float(0, 8) }, new Uint8Array(8));
  assert.equal(read(whole).tensors.size, 1);
  assertRefused(new Uint8Array(0), /the file is empty/);
  assertRefused(whole.subarray(0, 5), /it has 5 bytes/);
  assertRefused(whole.subarray(0, 20), /its header claims \d+ bytes, the file has 20/);
  assertRefused(
    whole.subarray(0, whole.byteLength - 1),
    /tensor "a" ends at byte \d+, the file has/,
  );
});

Deno.test("readSafetensorsHeader() refuses an absurd header length before reading it", () => {
  for (const length of [2n ** 62n, 2n ** 64n - 1n, 16n * 2n ** 20n + 1n]) {
    const bytes = new Uint8Array(64);
    new DataView(bytes.buffer).setBigUint64(0, length, true);
    assertRefused(bytes, new RegExp(`its header claims ${length} bytes, the limit is`));
  }
  const large = new Uint8Array(17 * 2 ** 20).fill(0x20);
  new DataView(large.buffer).setBigUint64(0, BigInt(large.length - 8), true);
  large[8] = "{".charCodeAt(0);
  assertRefused(large, /its header claims 17825784 bytes, the limit is 16777216/);
});

Deno.test("readSafetensorsHeader() refuses a header that is no JSON object", () => {
  for (
    const text of [
      "",
      "{",
      "not json",
      "[1, 2]",
      "null",
      "7",
      '"a"',
      '{"a": {}} trailing',
      "\u0000{}",
    ]
  ) {
    assertRefused(
      encodeSafetensors(text),
      /its header is not JSON|its header is not a JSON object/,
    );
  }
  const invalidUtf8 = encodeSafetensors('{"abcd": 1}');
  invalidUtf8.fill(0xff, 10, 14);
  assertRefused(invalidUtf8, /its header is not JSON/);
});

Deno.test("readSafetensorsHeader() refuses entries that are not what the format asks for", () => {
  const data = new Uint8Array(16);
  const cases: [unknown, RegExp][] = [
    ["text", /the entry of tensor "a" is not an object/],
    [null, /the entry of tensor "a" is not an object/],
    [[], /the entry of tensor "a" is not an object/],
    [{ ...float(0, 16), dtype: 3 }, /unknown type 3/],
    [{ ...float(0, 16), dtype: "constructor" }, /unknown type "constructor"/],
    [{ ...float(0, 16), shape: [-2, -2] }, /has the shape \[-2,-2\]/],
    [{ ...float(0, 16), shape: [1.5] }, /has the shape \[1\.5\]/],
    [{ ...float(0, 16), shape: "4" }, /has the shape "4"/],
    [
      { ...float(0, 16), shape: [2 ** 40, 2 ** 40] },
      /takes 4\.8\d*e\+24 bytes, its offsets span 16/,
    ],
    [{ ...float(0, 16), data_offsets: [0] }, /has the offsets \[0\]/],
    [{ ...float(0, 16), data_offsets: [0, 8, 16] }, /has the offsets \[0,8,16\]/],
    [{ ...float(0, 16), data_offsets: [-16, 0] }, /has the offsets \[-16,0\]/],
    [{ ...float(0, 16), data_offsets: [0, 1e300] }, /has the offsets \[0,1e\+300\]/],
    [{ ...float(0, 16), data_offsets: [16, 0] }, /its offsets span -16/],
    [{ ...float(0, 16), data_offsets: ["0", "16"] }, /has the offsets \["0","16"\]/],
  ];
  for (const [entry, message] of cases) {
    assertRefused(encodeSafetensors({ a: entry }, data), message);
  }
});

Deno.test("readSafetensorsHeader() refuses a shape whose bytes are not those of the offsets", () => {
  const data = new Uint8Array(32);
  for (const [dtype, bytes] of [["F32", 16], ["BF16", 8], ["F8_E4M3", 4], ["F64", 32]] as const) {
    const entry = (end: number) => ({ a: { dtype, shape: [4], data_offsets: [0, end] } });
    assert.equal(read(encodeSafetensors(entry(bytes), data)).tensors.get("a")!.byteLength, bytes);
    assertRefused(
      encodeSafetensors(entry(bytes - 1), data),
      new RegExp(`type ${dtype} takes ${bytes} bytes, its offsets span ${bytes - 1}`),
    );
  }
});

Deno.test("readSafetensorsHeader() refuses offsets beyond the file", () => {
  assertRefused(
    encodeSafetensors({ a: float(8, 24) }, new Uint8Array(16)),
    /tensor "a" ends at byte/,
  );
  const far = 2 ** 53 - 17;
  assertRefused(
    encodeSafetensors({ a: float(far, far + 16) }, new Uint8Array(16)),
    /tensor "a" ends at byte/,
  );
});

Deno.test("readSafetensorsHeader() refuses tensors that share bytes", () => {
  const data = new Uint8Array(32);
  assertRefused(
    encodeSafetensors({ a: float(0, 16), b: float(12, 28) }, data),
    /tensors "a" and "b" overlap/,
  );
  assertRefused(
    encodeSafetensors({ b: float(4, 8), a: float(0, 16) }, data),
    /tensors "a" and "b" overlap/,
  );
  assert.equal(
    read(encodeSafetensors({ b: float(16, 32), a: float(0, 16) }, data)).tensors.size,
    2,
  );
});

Deno.test("readSafetensorsHeader() refuses metadata that is no object", () => {
  assertRefused(encodeSafetensors({ __metadata__: ["pt"] }), /its metadata is not an object/);
});

Deno.test("readSafetensorsHeader() takes null for no metadata", () => {
  assert.deepEqual(read(encodeSafetensors({ __metadata__: null })).metadata, {});
});

Deno.test("readSafetensorsHeader() knows all types of the format, and says of newer ones that they are newer", () => {
  for (const [dtype, bits] of FORMAT_BITS) {
    const entry = { dtype, shape: [4], data_offsets: [0, bits / 2] };
    const { tensors } = read(encodeSafetensors({ a: entry }, new Uint8Array(bits / 2)));
    assert.equal(tensors.get("a")!.format, dtype);
  }
  assert.throws(
    () => read(encodeSafetensors({ a: { dtype: "F5_E9", shape: [1], data_offsets: [0, 1] } })),
    /"a" is stored as F5_E9, which this program does not know; fetch the model in fp8, in bf16,/,
  );
});

Deno.test("readSafetensorsHeader() says what a file is that is no safetensors file", () => {
  const refuse = (text: string, message: RegExp) =>
    assert.throws(() => read(new TextEncoder().encode(text)), message);
  refuse("GGUF\x03\0\0\0\0\0\0\0", /it is a GGUF file; fetch it as safetensors$/);
  refuse("PK\x03\x04\x14\0\0\0", /it is a zip archive, .*; fetch it as safetensors$/);
  refuse("<!DOCTYPE html>", /it is a web page and not the file itself/);
  refuse("{}", /it is JSON; give a file of safetensors$/);
});
