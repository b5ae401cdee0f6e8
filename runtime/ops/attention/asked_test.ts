import assert from "node:assert/strict";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { Graph } from "../../graph/graph.ts";
import { BASELINE_TARGET, type Target } from "../../target.ts";
import { attention } from "./mod.ts";

const SOFTWARE: Target = { ...BASELINE_TARGET, schedule: "cpu" };

Deno.test("attention() has one kernel with and without lengths and a bias of the last key on software adapters", () => {
  const kernelsOf = (target: Target) => {
    const graph = new Graph("test", target);
    const [q, k, v] = ["q", "k", "v"].map((name) =>
      graph.use(new DeviceTensor(name, [2, 4, 1, 8]))
    );
    const keyLengths = graph.use(new DeviceTensor("lengths", [2], "u32"));
    const lastKeyBias = graph.use(new DeviceTensor("bias", [2]));
    for (const options of [{}, { keyLengths }, { keyLengths, lastKeyBias }]) {
      attention(q!, k!, v!, options);
    }
    return new Set(graph.dispatches.map(({ kernel }) => kernel)).size;
  };
  assert.equal(kernelsOf(SOFTWARE), 1);
});

Deno.test("attention() has kernels of their own for much work on software adapters, and four rows of long heads", () => {
  const kernelOf = (queries: number) => {
    const graph = new Graph("test", SOFTWARE);
    const tensor = (name: string, length: number) =>
      graph.use(new DeviceTensor(name, [1, length, 1, 128]));
    attention(tensor("q", queries), tensor("k", 512), tensor("v", 512));
    return graph.dispatches[0]!.kernel.name;
  };
  assert.match(kernelOf(64), / rows=2 .* asks$/);
  assert.match(kernelOf(512), / rows=4 .* asks$/);
  assert.match(kernelOf(513), / rows=4 .*moved=16/);
  assert.doesNotMatch(kernelOf(513), /asks/);
});
