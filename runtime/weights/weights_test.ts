import assert from "node:assert/strict";
import type { Device } from "../device/device.ts";
import { decodeElements, type DType } from "../dtype.ts";
import { OutOfMemoryError } from "../errors.ts";
import { elementCount } from "../shape.ts";
import { Checkpoint } from "./checkpoint.ts";
import {
  encodeSafetensors,
  safetensorsOf,
  type TensorValues,
  withFolder,
} from "../../tests/support/safetensors.ts";
import { Weights } from "./weights.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

/** 0, 1, 2, … and wrapping before f16 and bf16 would round. */
function counted(shape: readonly number[], dtype: DType): TensorValues {
  const values = Float64Array.from({ length: elementCount(shape) }, (_, i) => i % 251);
  return { dtype, shape, values };
}

async function withDevice(
  use: (device: Device) => Promise<void>,
  maxBytes?: number,
): Promise<void> {
  const device = await openTestDevice(maxBytes === undefined ? {} : { maxBytes });
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

function withWeights<T>(
  tensors: Readonly<Record<string, TensorValues>>,
  use: (weights: Weights) => Promise<T>,
): Promise<T> {
  return withFolder({ "model.safetensors": safetensorsOf(tensors) }, async (folder) => {
    using checkpoint = Checkpoint.open(folder);
    return await use(new Weights(checkpoint));
  });
}

Deno.test("Weights.upload() keeps every element, for odd counts and all storage formats", async () => {
  const tensors: Record<string, TensorValues> = {};
  for (const dtype of ["f32", "f16", "bf16"] as const) {
    for (const shape of [[1], [3], [5, 7], [8, 4]]) {
      tensors[`${dtype}.${shape}`] = counted(shape, dtype);
    }
  }
  await withWeights(tensors, (weights) =>
    withDevice(async (device) => {
      const declared = Object.entries(tensors).map(([name, { shape }]) =>
        weights.declare(name, shape)
      );
      await weights.upload(device);
      for (const [i, { dtype, values }] of Object.values(tensors).entries()) {
        assert.equal(declared[i]!.dtype, dtype);
        assert.deepEqual(await declared[i]!.read(), values, declared[i]!.name);
      }
      assert.equal(device.allocatedBytes, weights.byteLength);
      weights.destroy();
      assert.equal(device.allocatedBytes, 0);
    }));
});

Deno.test("Weights.upload() turns [out, in, ...taps] into [out, ...taps, in] for channels-last weights", async () => {
  const shapes = [[5, 3, 3, 3], [3, 3, 1, 1], [2, 4, 3, 1, 1], [7, 1, 3, 3, 3]];
  const tensors: Record<string, TensorValues> = {};
  for (const dtype of ["f32", "f16", "bf16"] as const) {
    for (const shape of shapes) tensors[`${dtype}.${shape}`] = counted(shape, dtype);
  }
  await withWeights(tensors, (weights) =>
    withDevice(async (device) => {
      const names = Object.keys(tensors);
      const declared = names.map((name) =>
        weights.declare(name, tensors[name]!.shape, "channels-last")
      );
      await weights.upload(device);
      for (const [i, { shape, values }] of Object.values(tensors).entries()) {
        const [out, channels] = shape as [number, number];
        const taps = elementCount(shape.slice(2));
        assert.deepEqual(declared[i]!.shape, [out, ...shape.slice(2), channels]);
        const expected = Float64Array.from(
          { length: values.length },
          (_, at) => {
            const row = Math.floor(at / (taps * channels));
            const tap = Math.floor(at / channels) % taps;
            return values[(row * channels + at % channels) * taps + tap]!;
          },
        );
        assert.deepEqual(await declared[i]!.read(), expected, names[i]!);
      }
      weights.destroy();
    }));
});

Deno.test("Weights.upload() reads large tensors by ranges: JavaScript memory stays flat", async () => {
  // 20 MB each, more than two ranges; an odd number of rows and elements, so that ranges end unevenly.
  const taps = [3, 3];
  const shapes = { plain: [2501, 1999, 2], conv: [2221, 501, ...taps] };
  const files: Record<string, Uint8Array> = {};
  const entries: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const bytes = 2 * elementCount(shape);
    entries[name] = { dtype: "F16", shape, data_offsets: [offset, offset + bytes] };
    offset += bytes;
  }
  files["model.safetensors"] = encodeSafetensors(entries);
  await withFolder(files, async (folder) => {
    writePattern(`${folder}/model.safetensors`, offset / 2);
    using checkpoint = Checkpoint.open(folder);
    const weights = new Weights(checkpoint);
    await withDevice(async (device) => {
      const plain = weights.declare("plain", shapes.plain);
      const conv = weights.declare("conv", shapes.conv, "channels-last");
      const before = Deno.memoryUsage();
      let peak = 0;
      await weights.upload(device, () => {
        const { heapUsed, external } = Deno.memoryUsage();
        peak = Math.max(peak, heapUsed + external - before.heapUsed - before.external);
      });
      assert.ok(peak < 40 * 2 ** 20, `${peak} bytes of JavaScript memory were taken`);
      const stored = await plain.readBytes();
      const mismatch = halves(stored).findIndex((half, i) => half !== patternAt(i));
      assert.equal(mismatch, -1, `element ${mismatch} of the plain tensor differs`);
      const [, channels] = shapes.conv as [number, number];
      const first = elementCount(shapes.plain);
      const wrong = halves(await conv.readBytes()).findIndex((half, i) => {
        const row = Math.floor(i / (9 * channels));
        const tap = Math.floor(i / channels) % 9;
        return half !== patternAt(first + (row * channels + i % channels) * 9 + tap);
      });
      assert.equal(wrong, -1, `element ${wrong} of the convolution differs`);
      weights.destroy();
    });
  });
});

/** 16 bits that differ between neighbours and between ranges. */
function patternAt(i: number): number {
  return Math.imul(i, 40503) >>> 8 & 0x3bff;
}

function halves(bytes: Uint8Array<ArrayBuffer>): Uint16Array {
  return new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
}

/** Appends `count` pattern elements to a file, little by little. */
function writePattern(path: string, count: number): void {
  using file = Deno.openSync(path, { append: true });
  const part = new Uint16Array(2 ** 18);
  for (let start = 0; start < count; start += part.length) {
    for (let i = 0; i < part.length; i++) part[i] = patternAt(start + i);
    const bytes = new Uint8Array(part.buffer, 0, 2 * Math.min(part.length, count - start));
    for (let done = 0; done < bytes.byteLength;) done += file.writeSync(bytes.subarray(done));
  }
}

Deno.test("Weights.upload() takes memory for all weights before it writes the first", async () => {
  const tensors = Object.fromEntries(["a", "b", "c"].map((name) => [name, counted([64], "f32")]));
  await withWeights(tensors, (weights) =>
    withDevice(async (device) => {
      for (const name of Object.keys(tensors)) weights.declare(name, [64]);
      const taken: number[] = [];
      const write = device.write.bind(device);
      device.write = (...parameters) => {
        taken.push(device.allocatedBytes);
        write(...parameters);
      };
      await weights.upload(device);
      assert.deepEqual(taken, new Array(3).fill(weights.byteLength));
      weights.destroy();
    }));
});

Deno.test("Weights.upload() uploads nothing twice, and only what was declared", async () => {
  const tensors = { a: counted([64], "f32"), b: counted([32], "f32"), c: counted([16], "f16") };
  await withWeights(tensors, (weights) =>
    withDevice(async (device) => {
      const a = weights.declare("a", [64]);
      assert.equal(weights.declare("a", [64]), a);
      const seen: [number, number][] = [];
      await weights.upload(device, (done, total) => seen.push([done, total]));
      assert.deepEqual(seen, [[256, 256]]);
      weights.declare("b", [32]);
      await weights.upload(device, (done, total) => seen.push([done, total]));
      assert.deepEqual(seen, [[256, 256], [128, 128]]);
      assert.equal(device.counters.buffers, 2);
      assert.deepEqual(weights.unused, ["c"]);
      weights.destroy();
    }));
});

Deno.test("Weights.upload() passes on that the device has no room, and leaves nothing there", async () => {
  await withWeights(
    { a: counted([64], "f32"), b: counted([64], "f32") },
    (weights) =>
      withDevice(async (device) => {
        weights.declare("a", [64]);
        const b = weights.declare("b", [64]);
        await assert.rejects(() => weights.upload(device), (error) => {
          assert.ok(error instanceof OutOfMemoryError);
          assert.equal(error.requestedBytes, 256);
          assert.equal(error.availableBytes, 44);
          return true;
        });
        assert.equal(device.allocatedBytes, 0);
        assert.ok(!b.isAllocated);
      }, 300),
  );
});

Deno.test("Weights.declare() refuses a missing tensor, another shape and a format it cannot read", async () => {
  const tensors = { a: counted([2, 3], "f32"), ids: counted([2], "u32") };
  await withWeights(tensors, (weights) => {
    const refused = (name: string, shape: number[], message: RegExp) =>
      assert.throws(() => weights.declare(name, shape), (error) => {
        assert.ok(error instanceof SyntaxError);
        assert.match(error.message, message);
        return true;
      });
    refused("b", [1], /it lacks tensor "b" of shape \[1\]/);
    refused("a", [3, 2], /tensor "a" has shape \[2, 3\], its config asks for \[3, 2\]/);
    refused("a", [6], /tensor "a" has shape \[2, 3\], its config asks for \[6\]/);
    refused("ids", [2], /tensor "ids" is stored as U32, this program reads F32, F16, BF16/);
    return Promise.resolve();
  });
});

Deno.test("WeightScope names weights by their place in the tree", async () => {
  await withWeights({ "blocks.0.q.weight": counted([2], "f32") }, (weights) => {
    const block = weights.root.scope("blocks").scope(0);
    assert.equal(block.path, "blocks.0");
    assert.ok(block.has("q.weight"));
    assert.ok(block.scope("q").has("weight"));
    assert.ok(!block.has("k.weight"));
    return Promise.resolve();
  });
});

Deno.test("decodeElements() reads what safetensorsOf() wrote", () => {
  const { values } = counted([9], "bf16");
  const bytes = safetensorsOf({ a: { dtype: "bf16", shape: [9], values } });
  assert.deepEqual(decodeElements(bytes.slice(-18), "bf16"), values);
});

Deno.test("Weights.declareStack() puts tensors one after the other, and declines what differs in format", async () => {
  const tensors = {
    q: counted([4, 6], "f16"),
    k: counted([2, 6], "f16"),
    table: counted([1, 3, 6], "f16"),
    wide: counted([4, 6], "f32"),
    odd: counted([1, 5], "f16"),
    even: counted([2, 5], "f16"),
  };
  await withWeights(tensors, (weights) =>
    withDevice(async (device) => {
      const stackOf = (...names: (keyof typeof tensors)[]) =>
        weights.declareStack(names.map((name) => ({ name, shape: tensors[name].shape })));
      assert.equal(stackOf("q", "wide"), undefined);
      assert.equal(stackOf("odd", "even"), undefined, "half a word");
      const stack = stackOf("q", "k", "table")!;
      assert.equal(stackOf("q", "k", "table"), stack);
      assert.deepEqual(stack.shape, [9, 6]);
      assert.deepEqual(weights.unused.toSorted(), ["even", "odd", "wide"]);
      await weights.upload(device);
      const expected = [tensors.q, tensors.k, tensors.table].flatMap(({ values }) =>
        Array.from(values)
      );
      assert.deepEqual([...await stack.read()], expected);
      assert.throws(() => weights.declareStack([{ name: "q", shape: [6, 4] }]), SyntaxError);
    }));
});
