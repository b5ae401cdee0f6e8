import assert from "node:assert/strict";
import { Graph } from "../../graph.ts";
import { Resident } from "../../resident.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { upsampleNearest } from "./mod.ts";

Deno.test("upsampleNearest() refuses factors that are no positive integer and inputs that are no image", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const x = graph.use(new Resident("x", [1, 4, 4, 3]));
  for (const factor of [0, -2, 1.5]) {
    assert.throws(() => upsampleNearest(x, factor), /Cannot upsample x/);
  }
  assert.throws(() => upsampleNearest(x.reshape(4, 4, 3), 2), RangeError);
});
