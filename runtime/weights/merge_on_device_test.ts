/** What the device adds to weights, against the same in double precision. */
import assert from "node:assert/strict";
import { safetensorsOf, withFolder } from "../../tests/support/safetensors.ts";
import type { Device } from "../device/device.ts";
import { decodeElements, encodeElements } from "../dtype.ts";
import { type DeviceOptions, openDevice } from "../open_device.ts";
import { randomNormal } from "../ops/ndarray.ts";
import type { Shape } from "../shape.ts";
import type { ScaledProduct, TensorRewrite } from "./adaptation.ts";
import { Checkpoint } from "./checkpoint.ts";
import type { FactorType } from "./low_rank_factors.ts";
import { Weights } from "./weights.ts";

type Values = Float64Array;

interface TestProduct extends ScaledProduct {
  readonly up: Values;
  readonly down: Values;
}

let seed = 1;

/** Random numbers that a type holds. */
function numbers(shape: Shape, dtype: FactorType, size = 1): Values {
  const { data } = randomNormal([...shape], seed++);
  return decodeElements(encodeElements(data.map((value) => value * size), dtype), dtype);
}

function productOf(
  [n, k]: readonly [number, number],
  rank: number,
  dtype: FactorType,
  scale: number,
  rows: readonly [number, number] = [0, n],
): TestProduct {
  const up = numbers([rows[1], rank], dtype);
  const down = numbers([rank, k], dtype);
  const stored = (values: Values, as: FactorType) => {
    const bytes = encodeElements(values, as);
    return as === "f32" ? new Float32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
  };
  const factors = (as: FactorType) => ({ up: stored(up, as), down: stored(down, as) });
  return { rank, dtype, rows, scale, factors, up, down };
}

/** A rewrite whose elements only the device may make. */
function adding(key: string, products: readonly ScaledProduct[]): TensorRewrite {
  return {
    key,
    products,
    apply: () => {
      throw new Error("the host was asked");
    },
  };
}

/** W + Σ scale · up · down in double precision. */
function expectedOf(weight: Values, columns: number, products: readonly TestProduct[]): Values {
  const result = weight.slice();
  for (const { rank, rows: [start, count], scale, up, down } of products) {
    for (let row = 0; row < count; row++) {
      for (let column = 0; column < columns; column++) {
        let sum = 0;
        for (let r = 0; r < rank; r++) sum += up[row * rank + r]! * down[r * columns + column]!;
        result[(start + row) * columns + column]! += scale * sum;
      }
    }
  }
  return result;
}

/** Checks that every element is the nearest one of the type, but for what f32 sums lose. */
function assertNearest(actual: Values, expected: Values, dtype: FactorType): void {
  const nearest = decodeElements(encodeElements(expected, dtype), dtype);
  let worst = { i: 0, error: 0 };
  expected.forEach((value, i) => {
    // The distance to the value itself may be half a step: the nearest one is what counts.
    const error = Math.abs(actual[i]! - value) - Math.abs(nearest[i]! - value);
    if (!(error <= worst.error)) worst = { i, error };
  });
  const { i, error } = worst;
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  assert.ok(
    error <= 2e-6 * scale,
    `element ${i} of ${dtype}: ${actual[i]} instead of ${nearest[i]} for ${expected[i]}`,
  );
}

interface Bench {
  readonly weights: Weights;
  readonly device: Device;
}

async function withWeights(
  tensors: Parameters<typeof safetensorsOf>[0],
  use: (bench: Bench) => Promise<void>,
  options: DeviceOptions = {},
): Promise<void> {
  await withFolder({ "model.safetensors": safetensorsOf(tensors) }, async (folder) => {
    using checkpoint = Checkpoint.open(folder);
    const device = await openDevice(options);
    try {
      await use({ weights: new Weights(checkpoint), device });
    } finally {
      device.destroy();
    }
  });
}

for (const dtype of ["f32", "f16", "bf16"] as const) {
  Deno.test(`mergeOnDevice() adds products to ${dtype} weights and rounds once, to nearest`, async () => {
    const [n, k] = [37, 24];
    const a = numbers([n, k], dtype);
    // Small enough for the subnormal numbers of f16.
    const b = numbers([n, k], dtype, 1e-6);
    const tensors = {
      a: { dtype, shape: [n, k], values: a },
      b: { dtype, shape: [n, k], values: b },
    };
    await withWeights(tensors, async ({ weights, device }) => {
      const [first, second] = ["a", "b"].map((name) => weights.declare(name, [n, k]));
      await weights.upload(device);
      const products = [
        productOf([n, k], 3, "f16", 0.7),
        productOf([n, k], 8, "bf16", -0.3, [5, 20]),
        productOf([n, k], 4, "f32", 1.5, [30, 7]),
      ];
      const small = [productOf([n, k], 4, "f16", 1e-6)];
      const rewrites = new Map([["a", adding("x", products)], ["b", adding("y", small)]]);
      const { allocatedBytes } = device;
      await weights.rewrite(rewrites, device);
      assert.equal(device.allocatedBytes, allocatedBytes, "nothing stays beside the weights");
      assertNearest(await first!.read(), expectedOf(a, k, products), dtype);
      assertNearest(await second!.read(), expectedOf(b, k, small), dtype);
      await weights.rewrite(new Map(), device);
      assert.deepEqual(await first!.read(), a);
      assert.deepEqual(await second!.read(), b);
    });
  });
}

Deno.test("mergeOnDevice() finds rows of stacks and of convolutions, across bindings", async () => {
  const dtype = "f16";
  const conv = numbers([8, 4, 3, 3], dtype);
  const parts = ["q", "k"].map((name) => ({ name, shape: [16, 32] as const }));
  const stored = parts.map(({ shape }) => numbers(shape, dtype));
  const tensors = {
    conv: { dtype, shape: [8, 4, 3, 3], values: conv },
    q: { dtype, shape: [16, 32], values: stored[0]! },
    k: { dtype, shape: [16, 32], values: stored[1]! },
  } as const;
  const limits = { maxBindingBytes: 512, maxBufferBytes: 1024 };
  await withWeights(tensors, async ({ weights, device }) => {
    const stack = weights.declareStack(parts)!;
    const kernel = weights.declare("conv", [8, 4, 3, 3], "channels-last");
    await weights.upload(device);
    const forK = [productOf([16, 32], 4, dtype, 1)];
    const forConv = [productOf([8, 36], 5, dtype, 0.5)];
    const rewrites = new Map([["k", adding("k", forK)], ["conv", adding("c", forConv)]]);
    await weights.rewrite(rewrites, device);
    const rows = await stack.read();
    assert.deepEqual(rows.subarray(0, 512), stored[0]);
    assertNearest(rows.subarray(512), expectedOf(stored[1]!, 32, forK), dtype);
    const expected = expectedOf(conv, 36, forConv);
    const reordered = (await kernel.read()).map((_, i, all) => {
      const [row, channel, tap] = [Math.floor(i / 36), Math.floor(i % 36 / 9), i % 9];
      return all[row * 36 + tap * 4 + channel]!;
    });
    assertNearest(reordered, expected, dtype);
  }, { limits });
});

Deno.test("Weights.rewrite() reads a weight again only where it is not the file's", async () => {
  const shape = [8, 8] as const;
  const values = numbers(shape, "f16");
  await withWeights({ a: { dtype: "f16", shape: [...shape], values } }, async (bench) => {
    const { weights, device } = bench;
    const weight = weights.declare("a", shape);
    await weights.upload(device);
    let fills = 0;
    const fill = weight.fill.bind(weight);
    weight.fill = (...args) => {
      fills++;
      fill(...args);
    };
    const set = async (key: string, ...products: TestProduct[]) => {
      await weights.rewrite(new Map([["a", adding(key, products)]]), device);
      assertNearest(await weight.read(), expectedOf(values, 8, products), "f16");
    };
    const [x, y] = [1, 2].map((scale) => productOf(shape, 4, "f16", scale)) as [
      TestProduct,
      TestProduct,
    ];
    await set("x", x);
    assert.equal(fills, 0, "what was uploaded is the file's");
    await set("y", y);
    await set("xy", x, y);
    assert.equal(fills, 2);
    await weights.rewrite(new Map(), device);
    assert.equal(fills, 3);
    assert.deepEqual(await weight.read(), values);
  });
});

Deno.test("Weights.rewrite() leaves what overflows or has no room to the host", async () => {
  const shape = [8, 8] as const;
  const values = numbers(shape, "f16");
  await withWeights({ a: { dtype: "f16", shape: [...shape], values } }, async (bench) => {
    const { weights, device } = bench;
    const weight = weights.declare("a", shape);
    await weights.upload(device);
    const products = [productOf(shape, 4, "f16", 1e6)];
    const huge: TensorRewrite = {
      key: "huge",
      products,
      apply: (rows) => rows.set(Array.from(expectedOf(Float64Array.from(rows), 8, products))),
    };
    await assert.rejects(
      weights.rewrite(new Map([["a", huge]]), device),
      /^RangeError: Cannot write LoRAs into weight "a": element \d+ becomes .*f16 does not hold/,
    );
    await weights.rewrite(new Map(), device);
    assert.deepEqual(await weight.read(), values);
    const { availableBytes } = device;
    const hog = device.createBuffer("hog", Math.floor(availableBytes / 4) * 4 - 64);
    let asked = 0;
    const zero: TensorRewrite = { key: "z", products, apply: (rows) => (asked++, rows.fill(0)) };
    await weights.rewrite(new Map([["a", zero]]), device);
    device.destroyBuffer(hog);
    assert.ok(asked > 0 && (await weight.read()).every((value) => value === 0));
  }, { maxBytes: 1e6 });
});
