import assert from "node:assert/strict";
import { Graph } from "../graph/graph.ts";
import { linear } from "../ops/linear/mod.ts";
import { matmul } from "../ops/matmul/mod.ts";
import { sampleBlocks } from "../ops/sample_blocks.ts";
import { slice } from "../ops/layout/mod.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { BASELINE_TARGET } from "../target.ts";
import type { WeightFormat } from "./block_format.ts";
import { decodeF8 } from "./f8.ts";
import { DECODED_FORMATS } from "./decoded_formats.ts";
import {
  BLOCK_FORMATS,
  blockBytes,
  decodeBlocks,
  dequantize,
  repack,
  repackedBytes,
} from "./formats.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const NAMES = Object.keys(BLOCK_FORMATS) as WeightFormat[];

function golden(file: string): Uint8Array<ArrayBuffer> {
  return Deno.readFileSync(new URL(`../../tests/goldens/quantization/${file}`, import.meta.url));
}

function bitsSet(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0);
}

for (const [format, decoder] of Object.entries(DECODED_FORMATS)) {
  Deno.test(`decodeBlocks() of ${format} has every bit of the reference`, () => {
    const blocks = golden(`${format}.blocks`);
    const actual = new Uint32Array(decodeBlocks(blocks, decoder, format).buffer);
    const expected = new Uint32Array(golden(`${format}.values`).buffer);
    assert.ok(expected.length > 250);
    assert.deepEqual(actual, expected);
    assert.throws(() => decodeBlocks(blocks.subarray(1), decoder, format), /inside a block/);
  });
}

for (const format of NAMES) {
  Deno.test(`dequantize() of ${format} has every bit of the reference`, () => {
    const actual = dequantize(golden(`${format}.blocks`), format);
    const expected = new Float32Array(golden(`${format}.values`).buffer);
    assert.ok(expected.length > 250);
    assert.equal(actual.length, expected.length);
    const bits = new Uint32Array(actual.buffer);
    const wrong = new Uint32Array(expected.buffer).findIndex((word, i) => word !== bits[i]);
    assert.equal(wrong, -1, `element ${wrong} is ${actual[wrong]}, not ${expected[wrong]}`);
  });

  Deno.test(`dequantize() and repack() of ${format} refuse a block that is cut off`, () => {
    const blocks = golden(`${format}.blocks`).subarray(0, -1);
    if (!BLOCK_FORMATS[format].byteValues) {
      assert.throws(() => dequantize(blocks, format), /Cannot decode \d+ bytes .* inside a block/);
    }
    assert.throws(() => repack(blocks, format), RangeError);
  });

  Deno.test(`repack() of ${format} loses no bit and starts every group anew`, () => {
    const { blockBytes, groupBlocks } = BLOCK_FORMATS[format];
    const blocks = golden(`${format}.blocks`).subarray(0, (2 * groupBlocks + 1) * blockBytes);
    const packed = repack(blocks, format);
    assert.equal(bitsSet(packed), bitsSet(blocks));
    const odd = new Uint8Array(blocks.length + 1);
    odd.set(blocks, 1);
    assert.deepEqual(repack(odd.subarray(1), format), packed);
    const second = blocks.subarray(groupBlocks * blockBytes);
    assert.deepEqual(packed.subarray(groupBlocks * blockBytes), repack(second, format));
  });

  Deno.test(`DeviceTensor.writeRows() of ${format} in parts is the same as at once`, async () => {
    const columns = BLOCK_FORMATS[format].blockElements * 3;
    const blocks = sampleBlocks([21, columns], format, 7, 0.05);
    const rowBytes = blocks.length / 21;
    const whole = new DeviceTensor("whole", [21, columns], format);
    const parts = new DeviceTensor("parts", [21, columns], format);
    const device = await openTestDevice();
    try {
      whole.allocate(device).writeRows(blocks);
      parts.allocate(device);
      const step = parts.rowStep;
      for (let row = 0; row < 21; row += step) {
        parts.writeRows(blocks.subarray(row * rowBytes, (row + step) * rowBytes), row);
      }
      const bytes = await whole.readBytes();
      assert.equal(bytes.length, whole.byteLength);
      assert.deepEqual(await parts.readBytes(), bytes);
      await assert.rejects(whole.read(), /Cannot convert the elements of tensor "whole"/);
    } finally {
      whole.destroy();
      parts.destroy();
      device.destroy();
    }
  });
}

Deno.test("repack() moves the scales of a group behind its blocks", () => {
  const blocks = Uint8Array.from({ length: 9 * 18 }, (_, i) => i % 18 < 2 ? 200 : i / 18);
  const packed = repack(blocks, "q4_0");
  assert.equal(packed.length, 2 * 8 * 18);
  for (let block = 0; block < 8; block++) {
    assert.ok(packed.subarray(block * 16, block * 16 + 16).every((byte) => byte === block));
  }
  assert.ok(packed.subarray(128, 144).every((byte) => byte === 200));
  assert.ok(packed.subarray(144, 160).every((byte) => byte === 8));
});

Deno.test("decodeF8() knows the least, the largest and no number", () => {
  assert.equal(decodeF8(0x01), 2 ** -9);
  assert.equal(decodeF8(0x08), 2 ** -6);
  assert.equal(decodeF8(0xb8), -1);
  assert.equal(decodeF8(0x7e), 448);
  assert.ok(Number.isNaN(decodeF8(0x7f)) && Number.isNaN(decodeF8(0xff)));
  assert.ok(Object.is(decodeF8(0x80), -0));
});

Deno.test("a quantised weight takes as many bytes on the device as in its file, in whole groups", () => {
  for (const format of NAMES) {
    const { headerBytes } = BLOCK_FORMATS[format];
    assert.equal(
      new DeviceTensor("w", [64, 2048], format).byteLength,
      blockBytes([64, 2048], format) + headerBytes,
    );
    assert.equal(repackedBytes([3, 256], format) % 16, 0);
  }
  assert.equal(repackedBytes([1, 256], "q6_k"), 8 * 210);
});

Deno.test("DeviceTensor refuses rows that are no whole blocks and names the tensor", () => {
  assert.throws(
    () => new DeviceTensor("to_q.weight", [4, 96], "q4_k"),
    /Cannot store tensor "to_q.weight" \[4, 96\] as q4_k: its rows must be whole blocks of 256/,
  );
  assert.throws(() => new DeviceTensor("w", [4, 6], "f8_e4m3"), /blocks of 4 elements/);
  assert.throws(() => new DeviceTensor("w", [], "q8_0"), RangeError);
});

Deno.test("DeviceTensor.writeRows() refuses bytes that are no rows, cut groups, scales and NaN", () => {
  const w = new DeviceTensor("w", [9, 96], "q8_0");
  assert.equal(w.rowStep, 8);
  const row = 3 * 34;
  assert.throws(
    () => w.writeRows(new Uint8Array(row - 1)),
    /Cannot write 101 bytes at row 0 of tensor "w": it has 9 rows of 102 bytes and takes 8/,
  );
  assert.throws(() => w.writeRows(new Uint8Array(3 * row)), RangeError);
  assert.throws(() => w.writeRows(new Uint8Array(row), 4), RangeError);
  assert.throws(() => w.writeRows(new Uint8Array(2 * row), 8), RangeError);
  assert.throws(() => w.writeRows(new Uint8Array(9 * row), 0, 2), /q8_0 has none/);
  assert.throws(() => w.write(new Float32Array(9 * 96)), /it is stored as q8_0/);
  assert.throws(
    () => new DeviceTensor("x", [2, 2]).writeRows(new Uint8Array(16)),
    /Cannot write blocks to tensor "x": it is stored as f32/,
  );
  const f8 = new DeviceTensor("f8", [1, 4], "f8_e4m3");
  assert.throws(() => f8.writeRows(Uint8Array.of(1, 2, 0xff, 3)), /tensor "f8": they hold NaN/);
});

Deno.test("ops refuse quantised tensors that are no weights of linear or gather", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const w = graph.use(new DeviceTensor("w", [64, 32], "q8_0"));
  const x = graph.use(new DeviceTensor("x", [2, 32]));
  assert.deepEqual(linear(x, w).shape, [2, 64]);
  assert.throws(() => linear(w, w), /Cannot apply linear with w \[64, 32\] q8_0/);
  assert.throws(() => matmul(x, w, { transposeB: true }), /w \[64, 32\] q8_0 must be f32/);
  assert.throws(() => slice(w, 1, 0, 16), /Cannot move the elements of w \[64, 32\] q8_0/);
});
