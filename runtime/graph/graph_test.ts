import assert from "node:assert/strict";
import { Graph } from "./graph.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { COPY_KERNEL } from "../ops/copy/mod.ts";
import { BASELINE_TARGET } from "../target.ts";

function newGraph(): Graph {
  return new Graph("test", BASELINE_TARGET);
}

Deno.test("Tensor.reshape() keeps the number of elements", () => {
  const x = newGraph().use(new DeviceTensor("x", [2, 6]));
  assert.deepEqual(x.reshape(3, -1).shape, [3, 4]);
  assert.throws(
    () => x.reshape(5, -1),
    /Cannot reshape x \[2, 6\] f32 to \[5, -1\]: it has 12 elements/,
  );
});

Deno.test("elementwise() names the shapes that do not broadcast", () => {
  const graph = newGraph();
  const a = graph.use(new DeviceTensor("a", [2, 3]));
  const b = graph.use(new DeviceTensor("b", [4]));
  assert.throws(
    () => elementwise("a + b", { a, b }),
    /Cannot broadcast \[2, 3\] with \[4\]: sizes 3 and 4 differ/,
  );
});

Deno.test("Graph.tensor() refuses empty sizes and names the tensor with its scope", () => {
  const graph = newGraph();
  assert.throws(
    () => graph.scope("blocks.0", () => graph.tensor("q", [2, 0])),
    /Cannot create tensor "blocks.0.q" of shape \[2, 0\]/,
  );
});

Deno.test("Graph.dispatch() refuses to read what was never written", () => {
  const graph = newGraph();
  const x = graph.tensor("x", [4]);
  const y = graph.tensor("y", [4]);
  assert.throws(
    () =>
      graph.dispatch({
        kernel: COPY_KERNEL,
        buffers: { x, y },
        params: { words: 1 },
        workgroups: [1, 1, 1],
      }),
    /tensor x \[4\] f32 is read before it is written/,
  );
});

Deno.test("Graph.dispatch() refuses tensors of another graph and missing parameters", () => {
  const graph = newGraph();
  const x = graph.use(new DeviceTensor("x", [4]));
  const foreign = newGraph().tensor("y", [4]);
  const dispatch = (params: Record<string, number>, y = graph.tensor("y", [4])) =>
    graph.dispatch({ kernel: COPY_KERNEL, buffers: { x, y }, params, workgroups: [1, 1, 1] });
  assert.throws(() => dispatch({ words: 1 }, foreign), /belongs to graph/);
  assert.throws(() => dispatch({}), /parameter "words" is not given/);
});

Deno.test("Graph.dispatch() refuses what 32 bits or an empty grid cannot carry", () => {
  const graph = newGraph();
  const x = graph.use(new DeviceTensor("x", [4]));
  const dispatch = (words: number, workgroups: [number, number, number], input = x) =>
    graph.dispatch({
      kernel: COPY_KERNEL,
      buffers: { x: input, y: graph.tensor("y", [4]) },
      params: { words },
      workgroups,
    });
  for (const words of [-1, 0.5, 2 ** 32, NaN]) {
    assert.throws(
      () => dispatch(words, [1, 1, 1]),
      new RegExp(`parameter "words" is ${words}, no u32`),
    );
  }
  assert.throws(() => dispatch(1, [1, 0, 1]), /its grid is \[1, 0, 1\] workgroups/);
  const huge = graph.use(new DeviceTensor("huge", [2 ** 17, 2 ** 15]));
  assert.throws(() => dispatch(1, [1, 1, 1], huge), /tensor huge .* has 4294967296 elements/);
  dispatch(2 ** 32 - 1, [1, 1, 1]);
});

Deno.test("Graph.dispatch() counts bindings of tensors above the binding limit", () => {
  const graph = new Graph("test", {
    ...BASELINE_TARGET,
    limits: { ...BASELINE_TARGET.limits, maxBindingBytes: 256, maxStorageBuffers: 8 },
  });
  const a = graph.use(new DeviceTensor("a", [1024]));
  assert.throws(() => elementwise("a + 1.0", { a }), /need 32 storage bindings, the adapter has 8/);
});

Deno.test("Tensor.range() shows elements where they lie, or nothing where no binding can begin", () => {
  const x = newGraph().use(new DeviceTensor("x", [4, 64]));
  const row = x.range(64, [1, 64])!;
  assert.deepEqual([row.byteOffset, row.byteLength, row.isWhole], [256, 256, false]);
  assert.equal(row.reshape(8, 8).byteOffset, 256);
  assert.equal(row.range(64, [64])!.byteOffset, 512);
  assert.equal(x.range(32, [64]), undefined);
  const limits = { ...BASELINE_TARGET.limits, maxBindingBytes: 512 };
  const cut = new Graph("test", { ...BASELINE_TARGET, limits }).use(new DeviceTensor("x", [4, 64]));
  assert.equal(cut.range(64, [64]), undefined);
  const blocks = newGraph().use(new DeviceTensor("w", [32, 256], "q8_0"));
  assert.equal(blocks.range(0, [256]), undefined);
});

Deno.test("Graph.dispatch() refuses a range of a tensor that was overwritten since", () => {
  const graph = newGraph();
  const [state, fresh] = [new DeviceTensor("state", [4, 64]), new DeviceTensor("fresh", [4, 64])];
  const old = graph.use(state).range(64, [64])!.reshape(8, 8);
  const next = elementwise("2.0 * x", { x: old });
  copyTo(graph.use(fresh), state);
  assert.throws(
    () => elementwise("a + b", { a: old, b: next }),
    /range state \[8, 8\] f32 .* overwritten/,
  );
  elementwise("a + b", { a: graph.use(state).range(64, [8, 8])!, b: next });
});
