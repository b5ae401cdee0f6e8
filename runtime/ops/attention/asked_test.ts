import assert from "node:assert/strict";
import { DeviceTensor } from "../../device_tensor.ts";
import { Graph } from "../../graph.ts";
import { BASELINE_TARGET, type Target } from "../../target.ts";
import { attention } from "./mod.ts";

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
  const software: Target = { ...BASELINE_TARGET, schedule: "cpu" };
  assert.equal(kernelsOf(software), 1);
});
