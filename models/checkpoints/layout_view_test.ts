import assert from "node:assert/strict";
import { memoryTensors } from "../../tests/support/memory_tensors.ts";
import type { Layout } from "../layouts.ts";
import { viewLayout } from "./layout_view.ts";

const LAYOUT: Layout = {
  name: "joined",
  prefixes: [],
  entries: [
    { theirs: "blocks.*.qkv", ours: ["blocks.*.q", "blocks.*.k", "blocks.*.v"] },
    { theirs: "final", ours: ["norm_out"], swapsHalves: true },
    { theirs: "norm.scale", ours: ["norm_q.weight"] },
  ],
};

/** All bytes of a tensor, and the same once more in pieces of 5. */
function bytesOf(view: ReturnType<typeof viewLayout>, name: string): number[] {
  const { byteLength } = view.find(name)!;
  const whole = new Uint8Array(byteLength);
  view.read(name, 0, whole);
  const pieces = new Uint8Array(byteLength);
  for (let start = 0; start < byteLength; start += 5) {
    view.read(name, start, pieces.subarray(start, start + 5));
  }
  assert.deepEqual(pieces, whole);
  return [...whole];
}

/** Six rows of one block each, told apart by their first byte. */
const BLOCKS = {
  format: "Q8_0",
  shape: [6, 32],
  bytes: Uint8Array.from({ length: 6 * 34 }, (_, i) => i % 34 === 0 ? i / 34 : 99),
};

Deno.test("viewLayout() cuts joined rows, of quantised blocks too, and takes prefixes away", () => {
  const view = viewLayout(
    memoryTensors({ "model.blocks.3.qkv.weight": BLOCKS, "other.weight": [1] }),
    LAYOUT,
    "model.",
  );
  assert.deepEqual([...view.names], ["q", "k", "v"].map((part) => `blocks.3.${part}.weight`));
  const { format, shape, byteLength } = view.find("blocks.3.k.weight")!;
  assert.deepEqual([format, shape, byteLength], ["Q8_0", [2, 32], 68]);
  const bytes = bytesOf(view, "blocks.3.v.weight");
  assert.deepEqual([bytes[0], bytes[34], bytes.length], [4, 5, 68]);
});

Deno.test("viewLayout() swaps halves back, of weights and biases", () => {
  const view = viewLayout(memoryTensors({ "final.weight": BLOCKS, "final.bias": [4] }), LAYOUT);
  const bytes = bytesOf(view, "norm_out.weight");
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((row) => bytes[row * 34]), [3, 4, 5, 0, 1, 2]);
  assert.deepEqual(view.find("norm_out.weight")!.shape, [6, 32]);
  assert.deepEqual(bytesOf(view, "norm_out.bias").slice(0, 9), [8, 9, 10, 11, 12, 13, 14, 15, 0]);
});

Deno.test("viewLayout() leaves names that are ours, renames parameters and keeps scales", () => {
  const scaled = { format: "F8_E4M3", shape: [3, 4], bytes: new Uint8Array(12), scale: 0.5 };
  const view = viewLayout(
    memoryTensors({ "norm.scale": [2], "ours.weight": [2, 2], "blocks.0.qkv.weight": scaled }),
    LAYOUT,
  );
  assert.deepEqual(view.find("norm_q.weight")!.shape, [2]);
  assert.deepEqual(view.find("ours.weight")!.shape, [2, 2]);
  assert.equal(view.find("blocks.0.v.weight")!.scale, 0.5);
});

Deno.test("viewLayout() refuses rows that cannot be shared out, and two tensors of one name", () => {
  const view = (tensors: Parameters<typeof memoryTensors>[0]) => () =>
    viewLayout(memoryTensors(tensors), LAYOUT);
  assert.throws(
    view({ "blocks.0.qkv.weight": [4, 2] }),
    /Cannot read "memory.safetensors" as joined: .*4 rows of "blocks.0.qkv".*; fetch it again/,
  );
  assert.throws(
    view({ "blocks.0.qkv.weight": [3, 2], "blocks.0.k.weight": [1, 2] }),
    /two tensors for "blocks.0.k.weight"/,
  );
});

Deno.test("viewLayout().read() refuses bytes beyond the tensor", () => {
  const view = viewLayout(memoryTensors({ "final.bias": [4] }), LAYOUT);
  assert.throws(() => view.read("norm_out.bias", 8, new Uint8Array(9)), RangeError);
  assert.throws(() => view.read("norm_out.bias", NaN, new Uint8Array(1)), RangeError);
  assert.throws(() => view.read("final.bias", 0, new Uint8Array(1)), RangeError);
});
