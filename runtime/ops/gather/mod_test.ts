import assert from "node:assert/strict";
import { Graph } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { gather } from "./mod.ts";

Deno.test("gather() refuses tables that are no matrix and indices that are no u32", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const table = graph.use(new DeviceTensor("table", [5, 4]));
  const cube = graph.use(new DeviceTensor("cube", [5, 4, 2]));
  const indices = graph.use(new DeviceTensor("indices", [3], "u32"));
  assert.throws(() => gather(cube, indices), /table must be \[N, C\]/);
  assert.throws(() => gather(table, table), TypeError);
  assert.throws(() => gather(indices, indices), TypeError);
});
