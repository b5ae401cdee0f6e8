import assert from "node:assert/strict";
import { Graph } from "../../graph.ts";
import { Resident } from "../../resident.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { gather } from "./mod.ts";

Deno.test("gather() refuses tables that are no matrix and indices that are no u32", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const table = graph.use(new Resident("table", [5, 4]));
  const cube = graph.use(new Resident("cube", [5, 4, 2]));
  const indices = graph.use(new Resident("indices", [3], "u32"));
  assert.throws(() => gather(cube, indices), /table must be \[N, C\]/);
  assert.throws(() => gather(table, table), TypeError);
  assert.throws(() => gather(indices, indices), TypeError);
});
