import assert from "node:assert/strict";
import type { StorageFormat } from "../dtype.ts";
import { Graph } from "../graph/graph.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import type { Target } from "../target.ts";
import { attention } from "./attention/mod.ts";
import { conv2d } from "./conv/conv2d.ts";
import { linear } from "./linear/mod.ts";
import { matmul } from "./matmul/mod.ts";
import { matrixUnitOf } from "./matrix_unit.ts";
import { matrixTarget, matrixUnit } from "../../tests/support/matrix_target.ts";

Deno.test("matrixUnitOf() takes the largest multiplication of f16 into f32 that tiles are made of", () => {
  const listed = [
    matrixUnit(8, 8, 8),
    matrixUnit(16, 16, 16),
    matrixUnit(16, 8, 16),
    matrixUnit(32, 32, 16),
    { ...matrixUnit(16, 16, 32), resultComponentType: "f16" },
    { ...matrixUnit(16, 16, 32), componentType: "i8", resultComponentType: "i32" },
  ];
  const unit = { element: "f16", m: 16, n: 16, k: 16, lanes: 32, isForced: false };
  assert.deepEqual(matrixUnitOf(matrixTarget(listed)), unit);
  assert.equal(matrixUnitOf(matrixTarget([matrixUnit(32, 8, 16)])), undefined);
  assert.equal(matrixUnitOf(matrixTarget(listed, { features: { f16: false } })), undefined);
});

Deno.test("products take matrix units of f32 where there are none of f16, and whatever may be rounded", () => {
  const apple = [
    matrixUnit(8, 8, 8, "f32"),
    { ...matrixUnit(8, 8, 8), resultComponentType: "f16" },
  ];
  const unit = { element: "f32", m: 8, n: 8, k: 8, lanes: 32, isForced: false };
  assert.deepEqual(matrixUnitOf(matrixTarget(apple), "f32"), unit);
  assert.equal(matrixUnitOf(matrixTarget(apple)), undefined);
  const graph = new Graph("test", matrixTarget(apple, { features: { f16: false } }));
  const use = (name: string) => graph.use(new DeviceTensor(name, [512, 512]));
  linear(use("x"), use("w"));
  assert.match(graph.dispatches[0]!.kernel.name, /^gemm\/matrix .*element=f32/);
  assert.ok(!graph.dispatches[0]!.kernel.usesF16);
});

Deno.test("matrixUnitOf() fixes the size of subgroups where the adapter could choose, or does without", () => {
  const lanes = (subgroupMinSize: number, subgroupMaxSize: number, subgroupSizeControl = true) => {
    const sizes = { subgroupMinSize, subgroupMaxSize, subgroupSizeControl };
    const unit = matrixUnitOf(matrixTarget([matrixUnit(8, 16, 16)], { features: sizes }));
    return unit && [unit.lanes, unit.isForced];
  };
  assert.deepEqual(lanes(8, 32), [32, true]);
  assert.deepEqual(lanes(32, 64), [32, true]);
  assert.deepEqual(lanes(8, 16), [16, true]);
  assert.deepEqual(lanes(16, 32), [16, true]);
  assert.deepEqual(lanes(64, 64, false), [64, false]);
  assert.equal(lanes(8, 32, false), undefined);
  assert.equal(lanes(4, 4), undefined);
  assert.equal(lanes(128, 128), undefined);
});

Deno.test("ops round factors to f16 only where the target allows it and no weight is stored as f32", () => {
  const rounds = (operands: Target["operands"], build: (graph: Graph) => unknown) => {
    const graph = new Graph("test", { ...matrixTarget(), operands });
    build(graph);
    return graph.dispatches.some(({ kernel }) => kernel.usesF16);
  };
  const use = (graph: Graph, shape: number[], dtype: StorageFormat = "f32") =>
    graph.use(new DeviceTensor("x", shape, dtype));
  const products = (weight: StorageFormat): ((graph: Graph) => unknown)[] => [
    (graph) => linear(use(graph, [512, 64]), use(graph, [512, 64], weight)),
    (graph) => conv2d(use(graph, [1, 8, 8, 8]), use(graph, [8, 3, 3, 8], weight)),
  ];
  for (const weight of ["f16", "bf16"] as const) {
    for (const product of products(weight)) {
      assert.deepEqual((["f32", "f16", "int8"] as const).map((o) => rounds(o, product)), [
        false,
        true,
        true,
      ]);
    }
  }
  const quantized = (graph: Graph) => linear(use(graph, [512, 64]), use(graph, [512, 64], "q8_0"));
  assert.equal(rounds("f16", quantized), true);
  for (const product of products("f32")) assert.equal(rounds("f16", product), false);
  const activations: ((graph: Graph) => unknown)[] = [
    (graph) => matmul(use(graph, [64, 64]), use(graph, [64, 64])),
    (graph) => {
      const [q, k, v] = [0, 1, 2].map(() => use(graph, [1, 64, 2, 32]));
      attention(q!, k!, v!);
    },
  ];
  for (const product of activations) {
    assert.deepEqual([rounds("f32", product), rounds("f16", product)], [false, true]);
  }
});

Deno.test("linear() does without matrix units where the counter of what they round has no binding left", () => {
  const rounds = (maxStorageBuffers: number) => {
    const own = matrixTarget();
    const graph = new Graph("test", { ...own, limits: { ...own.limits, maxStorageBuffers } });
    const use = (name: string, shape: number[], dtype: StorageFormat = "f32") =>
      graph.use(new DeviceTensor(name, shape, dtype));
    linear(use("x", [512, 64]), use("w", [512, 64], "f16"), {
      ...{ bias: use("bias", [512]), gate: use("gate", [512]), residual: use("r", [512, 512]) },
      lowRank: {
        ...{ down: use("down", [4, 64], "f16"), up: use("up", [512, 4], "f16") },
        scales: use("scales", [4]),
      },
    });
    return graph.dispatches.some(({ kernel }) => kernel.usesF16);
  };
  assert.deepEqual([rounds(8), rounds(9)], [false, true]);
});
