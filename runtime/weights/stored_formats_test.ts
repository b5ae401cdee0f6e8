/** Every format of files, on its way to the device and to the CPU. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../tests/support/memory_tensors.ts";
import type { Device } from "../device/device.ts";
import { encodeElements } from "../dtype.ts";
import { sampleBlocks } from "../ops/sample_blocks.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { DECODED_FORMATS } from "../quantization/decoded_formats.ts";
import { BLOCK_FORMATS, decodeBlocks, dequantize, repack } from "../quantization/formats.ts";
import { findNonFinite, readRows } from "./fill_weight.ts";
import { storageOf } from "./storage.ts";
import { Weights } from "./weights.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const FORMATS = Object.keys(BLOCK_FORMATS) as WeightFormat[];

async function withDevice(use: (device: Device) => Promise<void>): Promise<void> {
  const device = await openTestDevice();
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

/** A tensor of blocks as a file has it. */
function stored(shape: readonly number[], format: WeightFormat, seed: number, scale?: number) {
  return {
    format: format.toUpperCase(),
    shape,
    bytes: sampleBlocks(shape, format, seed, 0.1),
    ...(scale === undefined ? {} : { scale }),
  };
}

for (const format of FORMATS) {
  const columns = 2 * BLOCK_FORMATS[format].blockElements;
  const scale = BLOCK_FORMATS[format].byteValues ? 0.37 : undefined;

  Deno.test(`Weights.upload() keeps matrices of ${format} as they are, and decodes all else exactly`, () =>
    withDevice(async (device) => {
      const matrix = stored([24, columns], format, 1, scale);
      const kernel = stored([6, columns / 4, 2, 2], format, 2, scale);
      const weights = new Weights(memoryTensors({ matrix, kernel }));
      const asStored = weights.declare("matrix", [24, columns]);
      const decoded = weights.declare("matrix", [24, columns], "elements");
      const conv = weights.declare("kernel", [6, columns / 4, 2, 2], "channels-last");
      await weights.upload(device);
      assert.equal(asStored.dtype, format);
      const packed = repack(matrix.bytes, format);
      const { headerBytes } = BLOCK_FORMATS[format];
      const onDevice = (await asStored.readBytes()).subarray(headerBytes);
      assert.deepEqual(onDevice.subarray(0, packed.length), packed);
      const values = dequantize(matrix.bytes, format, scale);
      assert.deepEqual([decoded.dtype, [...await decoded.read()]], ["f32", [...values]]);
      const taps = dequantize(kernel.bytes, format, scale);
      const channels = columns / 4;
      const reordered = Array.from(
        { length: taps.length },
        (_, i) => {
          const [row, rest] = [Math.floor(i / columns), i % columns];
          return taps[row * columns + (rest % channels) * 4 + Math.floor(rest / channels)]!;
        },
      );
      assert.deepEqual([...await conv.read()], reordered);
      weights.destroy();
    }));

  Deno.test(`Weights.declareStack() joins ${format} and declines what has another scale or cuts a group`, () =>
    withDevice(async (device) => {
      const parts = ["q", "k", "v"];
      const tensors = Object.fromEntries(
        parts.map((name, i) => [name, stored([16, columns], format, i, scale)]),
      );
      const weights = new Weights(memoryTensors({
        ...tensors,
        scaled: { ...tensors["q"]!, scale: 2 },
        short: stored([3, columns / 2], format, 9),
        odd: stored([5, columns / 2], format, 9),
      }));
      const stack = weights.declareStack(
        parts.map((name) => ({ name, shape: [16, columns] })),
      )!;
      await weights.upload(device);
      const all = Uint8Array.from(parts.flatMap((name) => [...tensors[name]!.bytes]));
      const packed = repack(all, format);
      const { headerBytes } = BLOCK_FORMATS[format];
      assert.deepEqual(
        (await stack.readBytes()).subarray(headerBytes, headerBytes + packed.length),
        packed,
      );
      const two = (a: string, b: string) =>
        weights.declareStack([a, b].map((name) => ({ name, shape: [16, columns] })));
      if (scale !== undefined) assert.equal(two("q", "scaled"), undefined);
      const halves = weights.declareStack([
        { name: "short", shape: [3, columns / 2] },
        { name: "odd", shape: [5, columns / 2] },
      ]);
      assert.equal(halves === undefined, BLOCK_FORMATS[format].groupBlocks > 1);
      weights.destroy();
    }));

  Deno.test(`readRows() of ${format} decodes the rows that are asked for`, () => {
    const matrix = stored([9, columns], format, 3, scale);
    const values = dequantize(matrix.bytes, format, scale);
    const rows = readRows(memoryTensors({ matrix }), "matrix", columns, [8, 0, 8]);
    const row = (i: number) => [...values.subarray(i * columns, (i + 1) * columns)];
    assert.deepEqual([...rows], [...row(8), ...row(0), ...row(8)]);
  });
}

Deno.test("Weights.upload() holds matrices of formats that no kernel decodes as f16, and readRows() reads them", () =>
  withDevice(async (device) => {
    for (const [format, decoder] of Object.entries(DECODED_FORMATS)) {
      const url = new URL(`../../tests/goldens/quantization/${format}.blocks`, import.meta.url);
      const bytes = Deno.readFileSync(url).subarray(4 * decoder.blockBytes);
      const values = decodeBlocks(bytes, decoder, format);
      const matrix = { format: format.toUpperCase(), shape: [2, values.length / 2], bytes };
      const weights = new Weights(memoryTensors({ matrix }));
      const asStored = weights.declare("matrix", matrix.shape);
      await weights.upload(device);
      assert.equal(asStored.dtype, "f16");
      assert.deepEqual(await asStored.readBytes(), encodeElements(values, "f16"));
      const rows = readRows(memoryTensors({ matrix }), "matrix", values.length / 2, [1]);
      assert.deepEqual([...rows], [...values.subarray(values.length / 2)]);
      weights.destroy();
    }
  }));

Deno.test("fp8 vectors and kernels of any length are decoded", () =>
  withDevice(async (device) => {
    const bytes = Uint8Array.of(0x38, 0xb8, 0x40, 0x7e, 0x01, 0x30, 0x28);
    const shapes = { bias: [7], kernel: [7, 1, 1, 1] };
    const source = memoryTensors(
      Object.fromEntries(
        Object.entries(shapes).map(([name, shape]) => [name, {
          format: "F8_E4M3",
          shape,
          bytes,
          scale: 2,
        }]),
      ),
    );
    const weights = new Weights(source);
    const bias = weights.declare("bias", [7]);
    const kernel = weights.declare("kernel", [7, 1, 1, 1], "channels-last");
    await weights.upload(device);
    const expected = [2, -2, 4, 896, 2 ** -8, 1, 0.5];
    assert.deepEqual([...await bias.read()], expected);
    assert.deepEqual([...await kernel.read()], expected);
    assert.deepEqual([...readRows(source, "bias", 7, [0])], expected);
    weights.destroy();
  }));

Deno.test("storageOf() keeps matrices of whole blocks quantised and decodes the rest", () => {
  assert.equal(storageOf("Q4_K", [8, 512], "as-stored"), "q4_k");
  assert.equal(storageOf("Q4_K", [8, 512], "elements"), "f32");
  assert.equal(storageOf("Q4_K", [8, 96], "as-stored"), "f32");
  assert.equal(storageOf("Q8_0", [4, 8, 3, 3], "channels-last"), "f32");
  assert.equal(storageOf("F8_E4M3", [64], "as-stored"), "f32");
  assert.equal(storageOf("BF16", [64], "as-stored"), "bf16");
  for (const format of ["NVFP4", "Q8_K", "I64", "F64", "F8_E8M0", "constructor"]) {
    assert.equal(storageOf(format, [8, 512], "as-stored"), undefined, format);
  }
});

Deno.test("findNonFinite() finds NaN and infinity in every format", () => {
  const clean = Object.fromEntries(
    FORMATS.map((format) => [format, stored([4, 512], format, 5)]),
  );
  const broken = {
    q8_0: [0, 0x7c00],
    q5_1: [2, 0x7e00],
    q5_0: [0, 0x7e00],
    q4_1: [0, 0xfc00],
    q4_0: [0, 0xfc00],
    q6_k: [208, 0x7c00],
    q5_k: [0, 0x7e00],
    q4_k: [2, 0x7c00],
    q3_k: [108, 0x7c00],
    q2_k: [82, 0xfc00],
    iq4_nl: [0, 0x7e00],
    iq4_xs: [0, 0x7c00],
    mxfp4: [0, 0x77ff],
    f8_e4m3: [0, 0x7f7f],
    f8_e5m2: [0, 0x7cfc],
  } as const;
  assert.equal(findNonFinite(memoryTensors(clean), FORMATS), undefined);
  for (const format of FORMATS) {
    const bytes = clean[format]!.bytes.slice();
    const [at, bits] = broken[format];
    const block = Math.floor(bytes.length / BLOCK_FORMATS[format].blockBytes) - 1;
    new DataView(bytes.buffer).setUint16(
      block * BLOCK_FORMATS[format].blockBytes + at,
      bits,
      true,
    );
    const tensors = memoryTensors({ ...clean, [format]: { ...clean[format]!, bytes } });
    assert.equal(findNonFinite(tensors, FORMATS), format);
  }
  const f16 = { format: "F16", shape: [3], bytes: encodeElements([1, NaN, 2], "f16") };
  assert.equal(findNonFinite(memoryTensors({ f16 }), ["f16", "absent"]), "f16");
});
