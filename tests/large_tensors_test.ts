/** Tensors that really exceed the 128 MiB that one binding holds on small LoRAs. */
import assert from "node:assert/strict";
import {
  copyTo,
  DeviceTensor,
  elementwise,
  gather,
  Graph,
  instantiate,
  linear,
  openDevice,
  planMemory,
  runSequence,
  slice,
  type Tensor,
} from "../runtime/mod.ts";

const BINDING = 128 * 1024 * 1024;

/** Runs `build` on one large f32 input filled by `fill`, and reads its small result. */
async function runLarge(
  shape: number[],
  fill: (i: number) => number,
  build: (x: Tensor) => Tensor,
): Promise<Float64Array> {
  const device = await openDevice();
  try {
    const graph = new Graph("large", {
      ...device.target,
      limits: {
        ...device.target.limits,
        maxBindingBytes: Math.min(BINDING, device.target.limits.maxBindingBytes),
      },
    });
    const input = new DeviceTensor("input", shape).allocate(device);
    const result = build(graph.use(input));
    const output = new DeviceTensor("output", result.shape).allocate(device);
    copyTo(result, output);
    const chunk = new Float32Array(1 << 20);
    const total = shape.reduce((a, b) => a * b);
    for (let start = 0; start < total; start += chunk.length) {
      const count = Math.min(chunk.length, total - start);
      for (let i = 0; i < count; i++) chunk[i] = fill(start + i);
      input.writeBytes(new Uint8Array(chunk.buffer, 0, count * 4), start * 4);
    }
    const programs = await instantiate(planMemory({ main: graph }), device);
    await runSequence(device, [{ programs: [programs.get("main")] }]);
    return await output.read();
  } finally {
    device.destroy();
  }
}

Deno.test("elementwise() and slice() reach over the 128 MiB of one binding", async () => {
  const columns = 1024;
  const rows = 40_000;
  const boundary = BINDING / 4 / columns;
  const values = await runLarge([rows, columns], (i) => i % 4093, (x) => {
    const doubled = elementwise("a * 2.0", { a: x });
    return slice(doubled, 0, boundary - 1, boundary + 1);
  });
  const first = (boundary - 1) * columns;
  assert.deepEqual(
    values,
    Float64Array.from({ length: 2 * columns }, (_, i) => (first + i) % 4093 * 2),
  );
});

Deno.test("gather() takes rows from all over a table of more than 128 MiB", async () => {
  const columns = 256;
  const rows = 160_000;
  const picks = [0, 131_071, 131_072, 159_999];
  const values = await runLarge([rows, columns], (i) => i % 65_521, (x) => {
    const indices = x.graph.constant("picks", [picks.length], "u32", picks);
    return gather(x, indices);
  });
  picks.forEach((row, i) => assert.equal(values[i * columns + 3], (row * columns + 3) % 65_521));
});

Deno.test("linear() multiplies with a weight of more than 128 MiB", async () => {
  const [n, k] = [9000, 4096];
  const values = await runLarge([n, k], (i) => (Math.floor(i / k) % 7) + 1, (weight) => {
    const ones = weight.graph.constant("ones", [1, k], "f32", new Float32Array(k).fill(1 / 64));
    return linear(ones, weight);
  });
  assert.equal(values.length, n);
  values.forEach((value, row) => assert.equal(value, ((row % 7) + 1) * 64));
});
