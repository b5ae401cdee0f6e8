import assert from "node:assert/strict";
import { memoryTensors } from "../../tests/support/memory_tensors.ts";
import { dequantize, type TensorSource } from "../../runtime/mod.ts";
import { transposed, without } from "./derived_view.ts";

function bytesOf(source: TensorSource, name: string, start: number, count: number): number[] {
  const bytes = new Uint8Array(count);
  source.read(name, start, bytes);
  return [...bytes];
}

Deno.test("transposed() gives a matrix the other way round, by ranges that cut elements too", () => {
  const matrix = { format: "F16", shape: [2, 3], bytes: Uint8Array.from(Array(12).keys()) };
  const view = transposed(memoryTensors({ theirs: matrix, other: [2] }), "theirs", "ours.weight");
  assert.deepEqual([...view.names], ["other", "ours.weight"]);
  assert.equal(view.find("theirs"), undefined);
  const { format, shape, byteLength } = view.find("ours.weight")!;
  assert.deepEqual([format, shape, byteLength], ["F16", [3, 2], 12]);
  const expected = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11];
  assert.deepEqual(bytesOf(view, "ours.weight", 0, 12), expected);
  assert.deepEqual(bytesOf(view, "ours.weight", 3, 6), expected.slice(3, 9));
  assert.deepEqual(bytesOf(view, "other", 1, 2), [1, 2]);
});

Deno.test("transposed() gives the numbers of quantised blocks as f32, and refuses other shapes", () => {
  const bytes = Uint8Array.from({ length: 2 * 34 }, (_, i) => (i * 37) % 120);
  const blocks = { format: "Q8_0", shape: [2, 32], bytes };
  const view = transposed(memoryTensors({ blocks }), "blocks", "ours");
  const { format, shape, byteLength } = view.find("ours")!;
  assert.deepEqual([format, shape, byteLength], ["F32", [32, 2], 256]);
  const numbers = new Float32Array(Uint8Array.from(bytesOf(view, "ours", 0, 256)).buffer);
  const plain = dequantize(bytes, "q8_0");
  assert.deepEqual([...numbers.subarray(0, 4)], [plain[0], plain[32], plain[1], plain[33]]);
  assert.throws(() => transposed(memoryTensors({ a: [2] }), "a", "b"), {
    message: /tensor "a" of shape \[2\] and type F32 cannot be transposed; fetch the file in f16/,
  });
});

Deno.test("without() hides tensors", () => {
  const view = without(memoryTensors({ a: [2], b: [2] }), (name) => name === "a");
  assert.deepEqual([[...view.names], view.find("a")], [["b"], undefined]);
});
