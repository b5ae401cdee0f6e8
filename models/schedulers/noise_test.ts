import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import process from "node:process";
import { TorchGenerator } from "./noise.ts";

interface StoredCase {
  readonly seed: string;
  readonly sizes: readonly number[];
  readonly offset: number;
}
interface HashedCase {
  readonly seed: string;
  readonly size: number;
  readonly sha256: string;
}

const folder = new URL("../../tests/goldens/noise/", import.meta.url);
const index = JSON.parse(Deno.readTextFileSync(new URL("noise.json", folder))) as {
  stored: StoredCase[];
  hashed: HashedCase[];
};
const values = new Float32Array(Deno.readFileSync(new URL("noise.f32", folder)).buffer);

function bits(array: Float32Array): Uint32Array {
  return new Uint32Array(array.buffer, array.byteOffset, array.length);
}

function assertSameBits(actual: Float32Array, expected: Float32Array, label: string): void {
  assert.equal(actual.length, expected.length, label);
  const a = bits(actual);
  const b = bits(expected);
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      assert.fail(`${label}: value ${i} is ${actual[i]}, PyTorch gives ${expected[i]}`);
    }
  }
}

Deno.test("TorchGenerator.randn() equals torch.randn bit for bit, over sizes, seeds and sequences of calls", () => {
  for (const { seed, sizes, offset } of index.stored) {
    const generator = new TorchGenerator(BigInt(seed));
    let at = offset;
    for (const size of sizes) {
      const expected = values.subarray(at, at + size);
      assertSameBits(generator.randn(size), expected, `seed ${seed}, sizes ${sizes}, ${size}`);
      at += size;
    }
  }
});

Deno.test("TorchGenerator.randn() equals torch.randn for large tensors, by SHA-256", () => {
  for (const { seed, size, sha256 } of index.hashed) {
    const data = new TorchGenerator(BigInt(seed)).randn(size);
    const digest = createHash("sha256").update(new Uint8Array(data.buffer)).digest("hex");
    assert.equal(digest, sha256, `seed ${seed}, ${size} values`);
  }
});

Deno.test("TorchGenerator takes the same seed as number and as bigint", () => {
  for (const seed of [0, 42, -7, 2 ** 32 - 1, Number.MAX_SAFE_INTEGER]) {
    const a = new TorchGenerator(seed).randn(20);
    assertSameBits(a, new TorchGenerator(BigInt(seed)).randn(20), `seed ${seed}`);
  }
});

Deno.test("TorchGenerator.randn() never gives NaN, infinity or a negative zero", () => {
  const data = new TorchGenerator(3).randn(1 << 18);
  for (const value of data) assert.ok(Number.isFinite(value) && !Object.is(value, -0));
});

Deno.test("TorchGenerator refuses a seed that PyTorch would refuse or that has lost digits", () => {
  for (const seed of [0.5, NaN, Infinity, 2 ** 53, 1n << 64n, -(1n << 63n) - 1n]) {
    assert.throws(() => new TorchGenerator(seed), /Cannot seed the noise generator/);
  }
});

Deno.test("TorchGenerator.randn() refuses a number of values that is not an integer >= 0", () => {
  for (const n of [-1, 1.5, NaN]) {
    assert.throws(() => new TorchGenerator(0).randn(n), /Cannot make noise/);
  }
});

Deno.test("TorchGenerator.randn() makes a million values in well under a second", () => {
  const generator = new TorchGenerator(0);
  generator.randn(1 << 16);
  const start = process.cpuUsage();
  generator.randn(1_000_000);
  const { user } = process.cpuUsage(start);
  // About 75 ms on the build machine; others may have its cores meanwhile.
  assert.ok(user < 1e6, `took ${user} us`);
});
