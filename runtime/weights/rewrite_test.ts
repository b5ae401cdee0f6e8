import assert from "node:assert/strict";
import { safetensorsOf, type TensorValues, withFolder } from "../../tests/support/safetensors.ts";
import type { Device } from "../device/device.ts";
import { decodeFloats, encodeElements, type StorageFormat } from "../dtype.ts";
import { randomNormal } from "../ops/ndarray.ts";
import { sampleBlocks } from "../ops/sample_blocks.ts";
import { dequantize } from "../quantization/formats.ts";
import type { TensorRewrite } from "./adaptation.ts";
import { Checkpoint } from "./checkpoint.ts";
import type { TensorSource } from "./container.ts";
import { Weights } from "./weights.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

/** Counts how often tensors are read. */
class CountingSource implements TensorSource {
  readonly path: string;
  reads = new Map<string, number>();
  readonly #source: TensorSource;

  constructor(source: TensorSource) {
    this.#source = source;
    this.path = source.path;
  }

  get names(): Iterable<string> {
    return this.#source.names;
  }

  find(name: string): ReturnType<TensorSource["find"]> {
    return this.#source.find(name);
  }

  read(name: string, start: number, target: Uint8Array): void {
    this.reads.set(name, (this.reads.get(name) ?? 0) + 1);
    this.#source.read(name, start, target);
  }
}

async function withWeights(
  tensors: Readonly<Record<string, TensorValues>>,
  use: (weights: Weights, device: Device, source: CountingSource) => Promise<void>,
): Promise<void> {
  await withFolder({ "model.safetensors": safetensorsOf(tensors) }, async (folder) => {
    using checkpoint = Checkpoint.open(folder);
    const source = new CountingSource(checkpoint);
    const device = await openTestDevice();
    try {
      await use(new Weights(source), device, source);
    } finally {
      device.destroy();
    }
  });
}

/** Adds 1000 · row + column (in the row) to every element. */
function marking(key: string, rowLength: number): TensorRewrite {
  return {
    key,
    apply(rows, firstRow) {
      assert.equal(rows.length % rowLength, 0, "whole rows");
      for (let i = 0; i < rows.length; i++) {
        rows[i]! += 1000 * (firstRow + Math.floor(i / rowLength)) + i % rowLength;
      }
    },
  };
}

Deno.test("Weights.rewrite() alters rows in f32 and rounds once, in every type and layout, and gives back the file's bits", async () => {
  for (const dtype of ["f32", "f16", "bf16"] as const) {
    const stored = (shape: number[]) => ({ dtype, shape, values: randomNormal(shape, 1).data });
    const tensors = {
      a: stored([6, 8]),
      b: stored([6, 8]),
      conv: stored([4, 3, 2, 2]),
      bias: stored([6]),
    };
    await withWeights(tensors, async (weights, device) => {
      const stack = weights.declareStack([{ name: "a", shape: [6, 8] }, {
        name: "b",
        shape: [6, 8],
      }])!;
      const conv = weights.declare("conv", [4, 3, 2, 2], "channels-last");
      const bias = weights.declare("bias", [6]);
      await weights.upload(device);
      const read = () => Promise.all([stack, conv, bias].map((tensor) => tensor.readBytes()));
      const before = await read();
      const rewrites = new Map([
        ["b", marking("1", 8)],
        ["conv", marking("1", 12)],
        ["bias", marking("1", 1)],
      ]);
      await weights.rewrite(rewrites, device);
      const rounded = (values: ArrayLike<number>) =>
        encodeElements(Float32Array.from(values), dtype);
      const decoded = (name: keyof typeof tensors) =>
        decodeFloats(encodeElements(tensors[name].values, dtype), dtype);
      const b = decoded("b").map((value, i) => value + 1000 * Math.floor(i / 8) + i % 8);
      const bytes = await read();
      assert.deepEqual(bytes[0], new Uint8Array([...rounded(decoded("a")), ...rounded(b)]), dtype);
      const marked = decoded("conv").map((value, i) => value + 1000 * Math.floor(i / 12) + i % 12);
      const reordered = marked.map((_, i) => {
        const [row, tap, channel] = [Math.floor(i / 12), Math.floor(i % 12 / 3), i % 3];
        return marked[row * 12 + channel * 4 + tap]!;
      });
      assert.deepEqual(bytes[1], rounded(reordered), dtype);
      assert.deepEqual(
        bytes[2],
        rounded(decoded("bias").map((value, i) => value + 1000 * i)),
        dtype,
      );
      await weights.rewrite(new Map(), device);
      assert.deepEqual(await read(), before, dtype);
      weights.destroy();
    });
  }
});

Deno.test("Weights.rewrite() reads again only what it makes anew", async () => {
  const stored = { dtype: "f32" as const, shape: [4, 4], values: new Float32Array(16) };
  await withWeights({ a: stored, b: stored, c: stored }, async (weights, device, source) => {
    for (const name of ["a", "b", "c"]) weights.declare(name, [4, 4]);
    await weights.upload(device);
    const readBy = async (keys: Readonly<Record<string, string>>) => {
      source.reads.clear();
      const rewrites = new Map(
        Object.entries(keys).map(([name, key]) => [name, marking(key, 4)] as const),
      );
      await weights.rewrite(rewrites, device);
      return [...source.reads.keys()];
    };
    assert.deepEqual(await readBy({ a: "1", b: "1" }), ["a", "b"]);
    assert.deepEqual(await readBy({ a: "1", b: "2" }), ["b"]);
    assert.deepEqual(await readBy({ a: "1", c: "1" }), ["b", "c"]);
    assert.deepEqual(await readBy({}), ["a", "c"]);
    assert.deepEqual(await readBy({}), []);
    weights.destroy();
  });
});

Deno.test("Weights.rewrite() refuses what a type does not hold, and sets it right the next time", async () => {
  const stored = { dtype: "f16" as const, shape: [2, 2], values: [1, 2, 3, 4] };
  await withWeights({ a: stored, b: stored }, async (weights, device) => {
    const [a, b] = ["a", "b"].map((name) => weights.declare(name, [2, 2]));
    await weights.upload(device);
    for (const value of [70000, NaN]) {
      const setting = (value: number) => ({
        key: String(value),
        apply: (rows: Float32Array) => rows.fill(value),
      });
      const rewrites = new Map([["a", setting(1)], ["b", setting(value)]]);
      await assert.rejects(weights.rewrite(rewrites, device), {
        name: "RangeError",
        message: new RegExp(`weight "b": element 0 becomes ${value}, which f16 does not hold`),
      });
      await weights.rewrite(new Map([["b", setting(2)]]), device);
      assert.deepEqual([...await a!.read(), ...await b!.read()], [1, 2, 3, 4, 2, 2, 2, 2]);
    }
    weights.destroy();
  });
});

Deno.test("Weights.readRows() gives altered rows", async () => {
  const stored = { dtype: "f32" as const, shape: [4, 2], values: [0, 1, 2, 3, 4, 5, 6, 7] };
  await withWeights({ a: stored }, async (weights, device) => {
    await weights.rewrite(new Map([["a", marking("1", 2)]]), device);
    assert.deepEqual([...weights.readRows("a", [4, 2], [3, 1])], [3006, 3008, 1002, 1004]);
  });
});

for (const format of ["q8_0", "q4_k", "f8_e4m3"] as const) {
  Deno.test(`Weights.rewrite() puts a decoded weight in place of one in ${format}, and takes it back`, async () => {
    const shape = [8, 256];
    const bytes = sampleBlocks(shape, format, 3, 1);
    const source: TensorSource = {
      path: "memory",
      names: ["w", "v"],
      find: (name) => ({
        name,
        format: format.toUpperCase(),
        shape,
        byteLength: bytes.byteLength,
        ...(format === "f8_e4m3" && { scale: 0.5 }),
      }),
      read: (_, start, target) => target.set(bytes.subarray(start, start + target.byteLength)),
    };
    const weights = new Weights(source);
    const device = await openTestDevice();
    try {
      const parts = ["w", "v"].map((name) => ({ name, shape }));
      const base = weights.declareStack(parts)!;
      assert.equal(base.dtype, format satisfies StorageFormat);
      await weights.upload(device);
      const { allocatedBytes } = device;
      const before = await base.readBytes();
      const halving = {
        key: "half",
        apply: (rows: Float32Array) => rows.forEach((x, i) => rows[i] = x / 2),
      };
      await weights.rewrite(new Map([["v", halving]]), device);
      const altered = weights.declareStack(parts)!;
      assert.equal(altered.dtype, "f16");
      const values = dequantize(bytes, format, format === "f8_e4m3" ? 0.5 : 1);
      const expected = new Float16Array([...values, ...values.map((value) => value / 2)]);
      assert.deepEqual(await altered.readBytes(), new Uint8Array(expected.buffer));
      assert.equal(weights.declare("w", shape).dtype, format, "by itself it is not altered");
      await weights.rewrite(new Map(), device);
      assert.equal(device.allocatedBytes, allocatedBytes);
      assert.equal(weights.declareStack(parts), base);
      assert.deepEqual(await base.readBytes(), before);
      weights.destroy();
    } finally {
      device.destroy();
    }
  });
}
