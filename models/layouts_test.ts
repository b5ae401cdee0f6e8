import assert from "node:assert/strict";
import { type Layout, namesIn, toOurs } from "./layouts.ts";

const LAYOUT: Layout = {
  name: "joined",
  prefixes: [],
  entries: [
    { theirs: "layers.*.qkv", ours: ["layers.*.to_q", "layers.*.to_k", "layers.*.to_v"] },
    { theirs: "single.*.linear1", ours: ["single.*.qkv", "single.*.mlp"], shares: [3, 4] },
    { theirs: "final.1", ours: ["norm_out.linear"], swapsHalves: true },
    { theirs: "a.*.b.*.c", ours: ["x.*.y.*"] },
  ],
};

Deno.test("toOurs() shares out rows, keeps the order of numbers, swaps halves back", () => {
  assert.deepEqual(toOurs(LAYOUT, "layers.12.qkv", 12), [
    { name: "layers.12.to_q", start: 0, count: 4 },
    { name: "layers.12.to_k", start: 4, count: 4 },
    { name: "layers.12.to_v", start: 8, count: 4 },
  ]);
  assert.deepEqual(toOurs(LAYOUT, "single.0.linear1", 14), [
    { name: "single.0.qkv", start: 0, count: 6 },
    { name: "single.0.mlp", start: 6, count: 8 },
  ]);
  assert.deepEqual(toOurs(LAYOUT, "final.1", 8), [
    { name: "norm_out.linear", start: 4, count: 4 },
    { name: "norm_out.linear", start: 0, count: 4 },
  ]);
  assert.equal(toOurs(LAYOUT, "a.3.b.7.c", 1)?.[0]?.name, "x.3.y.7");
});

Deno.test("toOurs() knows only its own names, and refuses rows that do not divide", () => {
  assert.equal(toOurs(LAYOUT, "layers.x.qkv", 12), undefined);
  assert.equal(toOurs(LAYOUT, "layers.1.qkv.more", 12), undefined);
  assert.throws(() => toOurs(LAYOUT, "layers.1.qkv", 13), /Cannot share out the 13 rows/);
});

Deno.test("namesIn() gives what the layout calls a model's modules, none of which the model has a part only", () => {
  const names = ["layers.0.to_q", "layers.0.to_k", "layers.0.to_v", "layers.1.to_q", "x.3.y.7"];
  assert.deepEqual([...namesIn(LAYOUT, names)], [
    ["layers.0.qkv", ["layers.0.to_q", "layers.0.to_k", "layers.0.to_v"]],
    ["a.3.b.7.c", ["x.3.y.7"]],
  ]);
});
