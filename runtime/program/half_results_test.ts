/** Which results are stored as f16, and what becomes of those that it does not hold. */
import assert from "node:assert/strict";
import { openTestDevice } from "../../tests/support/model_run.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { instantiate } from "./executable.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { storeFactorsAsHalf } from "./half_results.ts";
import { attention } from "../ops/attention/mod.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { concat, slice } from "../ops/layout/mod.ts";
import { linear } from "../ops/linear/mod.ts";
import { layerNorm } from "../ops/norm/layer_norm.ts";
import { planMemory } from "./plan.ts";
import { Saturation } from "../graph/saturation.ts";
import { BASELINE_TARGET, type Target } from "../target.ts";

const GPU: Target = { ...BASELINE_TARGET, features: { ...BASELINE_TARGET.features, f16: true } };
const NORM = { eps: 1e-6, name: "normed" };
const [ROWS, WIDTH] = [64, 64];

/** How the intermediates of a graph are stored, by name. */
function storageOf(
  build: (tensors: { x: Tensor; w: Tensor; y: DeviceTensor }, graph: Graph) => void,
  target = GPU,
  { weight = "bf16", wide = [] }: { weight?: "bf16" | "f32"; wide?: readonly string[] } = {},
): Record<string, string> {
  const graph = new Graph("test", target, new Saturation(new Set(wide)));
  const [x, w] = [
    graph.use(new DeviceTensor("x", [ROWS, WIDTH])),
    graph.use(new DeviceTensor("w", [WIDTH, WIDTH], weight)),
  ];
  build({ x, w, y: new DeviceTensor("y", [ROWS, WIDTH]) }, graph);
  storeFactorsAsHalf(graph);
  const intermediates = graph.dispatches.flatMap(({ tensors }) =>
    tensors.filter(({ memory }) => "id" in memory)
  );
  return Object.fromEntries(intermediates.map(({ name, dtype }) => [name, dtype]));
}

Deno.test("storeFactorsAsHalf() takes what only products and attention read", () => {
  const found = storageOf(({ x, w, y }) => {
    const heads = linear(layerNorm(x, NORM), w, { name: "plain" });
    const turned = layerNorm(heads, { ...NORM, name: "query" }).reshape(1, ROWS, 1, WIDTH);
    const attended = attention(turned, turned, turned).reshape(ROWS, WIDTH);
    copyTo(linear(attended, w, { residual: x, name: "result" }), y);
  });
  const expected = { normed: "f16", plain: "f32", query: "f16", attention: "f16", result: "f32" };
  assert.deepEqual(found, expected);
});

Deno.test("storeFactorsAsHalf() leaves what is read otherwise, or as a factor of weights in f32", () => {
  const both = ({ x, w, y }: { x: Tensor; w: Tensor; y: DeviceTensor }) => {
    const normed = layerNorm(x, NORM);
    copyTo(elementwise("a + b", { a: linear(normed, w), b: normed }), y);
  };
  const plain = ({ x, w, y }: { x: Tensor; w: Tensor; y: DeviceTensor }) =>
    copyTo(linear(layerNorm(x, NORM), w), y);
  assert.equal(storageOf(both)["normed"], "f32");
  assert.equal(storageOf(plain)["normed"], "f16");
  assert.equal(storageOf(plain, GPU, { weight: "f32" })["normed"], "f32");
  assert.equal(storageOf(plain, { ...GPU, operands: "f32" })["normed"], "f32");
  assert.equal(storageOf(plain, { ...GPU, schedule: "cpu" })["normed"], "f32");
  assert.equal(storageOf(plain, BASELINE_TARGET)["normed"], "f32");
  assert.equal(storageOf(plain, GPU, { wide: ["w"] })["normed"], "f32");
});

Deno.test("storeFactorsAsHalf() goes through joins, and keeps ranges where bindings can begin", () => {
  const joined = (first: number) =>
    storageOf(({ x, w, y }) => {
      const a = layerNorm(slice(x, 0, 0, first), { ...NORM, name: "a" });
      const b = layerNorm(slice(x, 0, first), { ...NORM, name: "b" });
      copyTo(linear(concat([a, b], 0, { name: "both" }), w), y);
    });
  assert.deepEqual(joined(32), { a: "f16", b: "f16", both: "f16", linear: "f32" });
  const ranged = (first: number) =>
    storageOf(({ x, w, y }) => {
      const normed = layerNorm(x, NORM);
      const parts = [slice(normed, 0, 0, first), slice(normed, 0, first)];
      copyTo(concat(parts.map((part) => linear(part, w)), 0), y);
    });
  assert.equal(ranged(2)["normed"], "f16");
  assert.equal(ranged(1)["normed"], "f32");
});

Deno.test("What f16 does not hold of a stored result is counted for its layer, which then keeps f32", async () => {
  const device = await openTestDevice({ schedule: "gpu", operands: "f16" }, "usual");
  const run = async (gain: number, saturation = new Saturation()) => {
    const graph = new Graph("test", device.target, saturation);
    const x = new DeviceTensor("x", [ROWS, WIDTH]);
    const w = new DeviceTensor("w", [WIDTH, WIDTH], "f16");
    const y = new DeviceTensor("y", [ROWS, WIDTH]);
    const scale = graph.constant("scale", [WIDTH], "f32", new Float32Array(WIDTH).fill(gain));
    const normed = layerNorm(graph.use(x), { ...NORM, weight: scale });
    copyTo(linear(normed, graph.use(w)), y);
    storeFactorsAsHalf(graph);
    const tensors = [x, w, y, saturation.counters];
    for (const tensor of tensors) tensor.allocate(device);
    x.write(Float32Array.from({ length: ROWS * WIDTH }, (_, i) => Math.sin(i * i)));
    w.write(Float32Array.from({ length: WIDTH ** 2 }, (_, i) => i % (WIDTH + 1) ? 0 : 1));
    const programs = await instantiate(planMemory({ main: graph }), device);
    try {
      programs.get("main").submit();
      const counts = Uint32Array.from(await saturation.counters.read());
      return { y: await y.readFloat32(), layers: saturation.layersOf(counts), graph };
    } finally {
      programs.destroy();
      for (const tensor of tensors) tensor.destroy();
    }
  };
  try {
    const [plain, beyond] = [await run(1), await run(1e5)];
    assert.deepEqual(plain.layers, []);
    assert.deepEqual(beyond.layers, ["normed"]);
    const wide = await run(1e5, new Saturation(new Set(beyond.layers)));
    assert.deepEqual(wide.layers, []);
    plain.y.forEach((value, i) => {
      assert.ok(Math.abs(wide.y[i]! / 1e5 - value) < 2 ** -10, `element ${i}`);
    });
    assert.ok(wide.y.some((value) => Math.abs(value) > 65504));
  } finally {
    device.destroy();
  }
});
