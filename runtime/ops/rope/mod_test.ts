import assert from "node:assert/strict";
import { Graph } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { rope } from "./mod.ts";

Deno.test("rope() refuses odd heads and tables of another shape", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const use = (name: string, shape: number[]) => graph.use(new DeviceTensor(name, shape));
  const x = use("x", [2, 5, 3, 8]);
  const odd = use("odd", [2, 5, 3, 7]);
  const table = use("table", [5, 4]);
  const short = use("short", [4, 4]);
  assert.throws(() => rope(odd, table, table, { style: "half" }), /D even/);
  assert.throws(() => rope(x, table, short, { style: "half" }), /sin short .*\[5, 4\]/);
  assert.throws(() => rope(x, short, table, { style: "interleaved" }), /cos short/);
});
