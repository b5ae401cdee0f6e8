import assert from "node:assert/strict";
import { Graph } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { concat, permute, slice } from "./mod.ts";

function inputs() {
  const graph = new Graph("test", BASELINE_TARGET);
  return {
    graph,
    a: graph.use(new DeviceTensor("a", [2, 3, 1, 5])),
    b: graph.use(new DeviceTensor("b", [2, 4, 1, 5])),
    half: graph.use(new DeviceTensor("half", [2, 3, 1, 5], "f16")),
    ids: graph.use(new DeviceTensor("ids", [2, 3, 1, 5], "u32")),
  };
}

Deno.test("concat() refuses tensors whose other sizes or types differ, by name", () => {
  const { a, b, ids } = inputs();
  assert.throws(() => concat([a, b], 0), /a \[2, 3, 1, 5\] f32 and b/);
  assert.throws(() => concat([a, ids], 0), TypeError);
  assert.throws(() => concat([], 0), RangeError);
  assert.throws(() => concat([a, b], 4), RangeError);
});

Deno.test("concat() of one f32 tensor moves nothing", () => {
  const { graph, a } = inputs();
  assert.equal(concat([a], 1), a);
  assert.equal(graph.dispatches.length, 0);
});

Deno.test("slice() refuses empty ranges and ranges outside the tensor", () => {
  const { a } = inputs();
  for (const [start, end] of [[2, 2], [2, 1], [0, 4], [-4, 2], [0.5, 2]] as const) {
    assert.throws(() => slice(a, 1, start, end), /Cannot slice a .*size there is 3/);
  }
});

Deno.test("slice() counts negative bounds from the end", () => {
  const { a } = inputs();
  assert.deepEqual(slice(a, -3, -2, -1).shape, [2, 1, 1, 5]);
  assert.deepEqual(slice(a, 1, 1).shape, [2, 2, 1, 5]);
});

Deno.test("permute() refuses axes that are no permutation", () => {
  const { a } = inputs();
  for (const axes of [[0, 1, 2], [0, 1, 1, 3], [0, 1, 2, 4], [-1, 0, 1, 2]]) {
    assert.throws(() => permute(a, axes), /Cannot permute a/);
  }
});

Deno.test("permute() moves nothing where only a size of 1 changes its place", () => {
  const { graph, a, half } = inputs();
  const y = permute(a, [2, 0, 1, 3]);
  assert.deepEqual([y.shape, y.memory], [[1, 2, 3, 5], a.memory]);
  assert.equal(graph.dispatches.length, 0);
  assert.equal(permute(half, [2, 0, 1, 3]).dtype, "f32");
  assert.equal(graph.dispatches.length, 1);
});

Deno.test("slice() moves nothing where the elements lie together and can be bound", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const x = graph.use(new DeviceTensor("x", [4, 64]));
  const y = slice(x, 0, 1, 3);
  assert.deepEqual([y.shape, y.memory, y.byteOffset], [[2, 64], x.memory, 256]);
  assert.equal(graph.dispatches.length, 0);
  assert.deepEqual(slice(y.reshape(2, 2, 32), 1, 1, 2).shape, [2, 1, 32]);
  assert.equal(graph.dispatches.length, 1, "columns lie apart");
});
