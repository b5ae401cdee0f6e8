import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { TorchGenerator } from "../../../models/schedulers/noise.ts";
import { decodeFloats } from "../../dtype.ts";
import type { WeightFormat } from "../block_format.ts";
import { BLOCK_FORMATS, dequantize } from "../formats.ts";
import { quantize } from "./mod.ts";

const FORMATS = Object.keys(BLOCK_FORMATS) as WeightFormat[];
const FOLDER = new URL("../../../tests/goldens/quantization/encode/", import.meta.url);
const golden: { seed: number; count: number; std: number; sha256: Record<string, string> } = JSON
  .parse(Deno.readTextFileSync(new URL("encode.json", FOLDER)));

function normals(): Float32Array {
  const values = new TorchGenerator(golden.seed).randn(golden.count);
  return values.map((value) => value * Math.fround(golden.std));
}

for (const format of FORMATS.filter((name) => !name.startsWith("f8"))) {
  Deno.test(`quantize() to ${format} writes ggml's bytes of blocks at all ends`, () => {
    const values = decodeFloats(Deno.readFileSync(new URL("values.bf16", FOLDER)), "bf16");
    const expected = Deno.readFileSync(new URL(`${format}.blocks`, FOLDER));
    const actual = quantize(values, format);
    assert.equal(actual.length, expected.length);
    const wrong = actual.findIndex((byte, i) => byte !== expected[i]);
    const { blockBytes } = BLOCK_FORMATS[format];
    const block = Math.floor(wrong / blockBytes);
    assert.equal(
      wrong,
      -1,
      `byte ${wrong % blockBytes} of block ${block} is ${actual[wrong]}, not ${expected[wrong]}`,
    );
  });
}

Deno.test("quantize() writes ggml's and torch's bytes of 131,072 normal numbers, in every format", () => {
  const values = normals();
  for (const format of FORMATS) {
    const hash = createHash("sha256").update(quantize(values, format)).digest("hex");
    assert.equal(hash, golden.sha256[format], format);
  }
});

Deno.test("quantize() of fp8 divides by the scale, keeps every number of its own, and ends at the largest", () => {
  for (const format of ["f8_e4m3", "f8_e5m2"] as const) {
    const codes = Uint8Array.from({ length: 256 }, (_, i) => i)
      .filter((code) => Number.isFinite(dequantize(Uint8Array.of(code), format)[0]));
    assert.deepEqual(quantize(dequantize(codes, format), format), codes);
    assert.deepEqual(quantize(dequantize(codes, format, 0.5), format, 0.5), codes);
    const largest = dequantize(quantize(Float32Array.of(1e6, -1e6), format), format);
    assert.deepEqual([...largest], format === "f8_e4m3" ? [448, -448] : [57344, -57344]);
  }
});

Deno.test("quantize() refuses numbers that end inside a block", () => {
  assert.throws(
    () => quantize(new Float32Array(300), "q4_k"),
    /Cannot encode 300 numbers as q4_k: they end inside a block of 256/,
  );
});
