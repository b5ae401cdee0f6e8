import assert from "node:assert/strict";
import { elideCopies } from "./copy_elision.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { slice } from "../ops/layout/mod.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { BASELINE_TARGET } from "../target.ts";

/** Buffers that each dispatch reads and the one that it writes, after copies are omitted. */
function traced(build: (graph: Graph, x: Tensor, y: DeviceTensor) => void): string[] {
  const graph = new Graph("test", BASELINE_TARGET);
  const [x, y] = [new DeviceTensor("x", [64]), new DeviceTensor("y", [64])];
  build(graph, graph.use(x), y);
  return elideCopies(graph.dispatches).map(({ tensors }) =>
    tensors.map(({ memory }) => ("id" in memory ? `#${memory.id}` : memory.name)).join(" ")
  );
}

const next = (x: Tensor) => elementwise("2 * x", { x });

Deno.test("elideCopies() makes a result where it is wanted, for later readers too", () => {
  assert.deepEqual(
    traced((_, x, y) => {
      const a = next(x);
      copyTo(a, y);
      copyTo(next(a), new DeviceTensor("z", [64]));
    }),
    ["x y", "y z"],
  );
});

Deno.test("elideCopies() keeps the copy where the target is read or written meanwhile", () => {
  const kept = traced((graph, x, y) => {
    const a = next(x);
    next(graph.use(y));
    copyTo(a, y);
  });
  assert.deepEqual(kept, ["x #0", "y #1", "#0 y"]);
  assert.deepEqual(traced((graph, _, y) => copyTo(next(graph.use(y)), y)), ["y #0", "#0 y"]);
});

Deno.test("elideCopies() keeps the copy where the target is overwritten before the last reader", () => {
  const kept = traced((_, x, y) => {
    const [a, b] = [next(x), next(x)];
    copyTo(a, y);
    copyTo(b, y);
    next(a);
  });
  assert.deepEqual(kept, ["x #0", "x #1", "#0 y", "#1 y", "#0 #2"]);
});

Deno.test("elideCopies() keeps the copy where what was copied is written again", () => {
  const kept = traced((graph, x, y) => {
    const a = next(x);
    copyTo(a, y);
    const { kernel, params, workgroups } = graph.dispatches[0]!;
    const names = Object.keys(kernel.params);
    graph.dispatch({
      kernel,
      buffers: { x, result: a },
      params: Object.fromEntries(names.map((name, i) => [name, params[i]!])),
      workgroups,
    });
  });
  assert.deepEqual(kept, ["x #0", "#0 y", "x #0"]);
});

Deno.test("elideCopies() keeps copies of parts, and of what lies outside", () => {
  const half = new DeviceTensor("half", [32]);
  const outside = traced((_, x, y) => copyTo(x, y));
  assert.deepEqual(outside, ["x y"]);
  const part = traced((graph, x) => {
    const [a] = [elementwise("2 * x", { x: x.reshape(1, 64) })];
    copyTo(slice(a.reshape(64), 0, 0, 32), half);
    assert.equal(graph.dispatches.length, 2);
  });
  assert.deepEqual(part, ["x #0", "#0 half"]);
});
