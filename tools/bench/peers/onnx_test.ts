import assert from "node:assert/strict";
import { makeInputs } from "../../../report/op_cases.ts";
import { parseCase } from "./cases.ts";
import { encodeOnnx, varint } from "./onnx.ts";
import { onnxModel } from "./onnx_models.ts";

/** A message as a list of fields in their order: numbers, and bytes that may be messages again. */
function decode(bytes: Uint8Array): { field: number; value: number | Uint8Array }[] {
  const fields: { field: number; value: number | Uint8Array }[] = [];
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < bytes.length) {
    const key = number();
    if ((key & 7) === 0) fields.push({ field: key >> 3, value: number() });
    else {
      assert.equal(key & 7, 2, "only integers and blocks are written");
      const length = number();
      fields.push({ field: key >> 3, value: bytes.slice(at, at += length) });
    }
  }
  assert.equal(at, bytes.length, "the last field ends with the message");
  return fields;
}

const all = (bytes: Uint8Array, field: number): (number | Uint8Array)[] =>
  decode(bytes).filter((each) => each.field === field).map(({ value }) => value);
const one = (bytes: Uint8Array, field: number): Uint8Array => all(bytes, field)[0] as Uint8Array;
const words = (bytes: Uint8Array, field: number): string[] =>
  all(bytes, field).map((value) => new TextDecoder().decode(value as Uint8Array));

Deno.test("varint() gives seven bits per byte, the lowest first", () => {
  assert.deepEqual([...varint(0)], [0]);
  assert.deepEqual([...varint(127)], [127]);
  assert.deepEqual([...varint(300)], [0xac, 0x02]);
  assert.deepEqual([...varint(2 ** 35)], [0x80, 0x80, 0x80, 0x80, 0x80, 0x01]);
});

Deno.test("varint() gives negative numbers ten bytes, as 64-bit integers have them", () => {
  assert.deepEqual([...varint(-1)], [...new Array(9).fill(0xff), 0x01]);
});

Deno.test("encodeOnnx() writes the bytes of a small model", () => {
  const bytes = encodeOnnx({ inputs: [], outputs: [], constants: [], nodes: [] });
  const graph = [0x3a, 7, 0x12, 5, ...new TextEncoder().encode("graph")];
  assert.deepEqual([...bytes], [0x08, 8, ...graph, 0x42, 4, 0x0a, 0, 0x10, 17]);
});

Deno.test("encodeOnnx() writes nodes, attributes, constants and typed shapes", () => {
  const model = encodeOnnx({
    inputs: [{ name: "x", shape: [1, 300] }],
    outputs: [{ name: "y", shape: [1, 2] }],
    constants: [{ name: "w", shape: [2], values: Float32Array.of(1, -2) }],
    nodes: [{
      op: "Conv",
      inputs: ["x", "w"],
      outputs: ["y"],
      attributes: { pads: { ints: [1, 2] }, axis: { int: -1 } },
    }],
  });
  const graph = one(model, 7);
  const node = one(graph, 1);
  assert.deepEqual([words(node, 1), words(node, 2), words(node, 4)], [["x", "w"], ["y"], ["Conv"]]);
  const [pads, axis] = all(node, 5) as [Uint8Array, Uint8Array];
  assert.deepEqual([words(pads, 1), all(pads, 8), all(pads, 20)], [["pads"], [1, 2], [7]]);
  assert.deepEqual([words(axis, 1), all(axis, 3), all(axis, 20)], [["axis"], [-1], [2]]);
  const constant = one(graph, 5);
  assert.deepEqual([all(constant, 1), all(constant, 2), words(constant, 8)], [[2], [1], ["w"]]);
  assert.deepEqual([...new Float32Array(one(constant, 9).buffer)], [1, -2]);
  const tensor = one(one(one(graph, 11), 2), 1);
  assert.deepEqual(all(tensor, 1), [1], "elements are floats");
  const sizes = all(one(tensor, 2), 1).map((size) => all(size as Uint8Array, 1)[0]);
  assert.deepEqual(sizes, [1, 300]);
  assert.deepEqual(words(one(graph, 12), 1), ["y"]);
});

Deno.test("encodeOnnx() refuses a constant whose values do not fill its shape", () => {
  const constants = [{ name: "w", shape: [3], values: Float32Array.of(1, 2) }];
  assert.throws(
    () => encodeOnnx({ inputs: [], outputs: [], constants, nodes: [] }),
    /Cannot encode constant "w" of shape \[3\]: 2 values are given/,
  );
});

Deno.test("onnxModel() computes attention as products around a softmax, once per copy", () => {
  const op = parseCase("attention:2x3x4");
  const { bytes, feeds } = onnxModel(op, makeInputs(op), 2);
  const nodes = (all(one(bytes, 7), 1) as Uint8Array[]).map((node) => words(node, 4)[0]);
  const each = ["Mul", "MatMul", "Softmax", "MatMul"];
  assert.deepEqual(nodes, [...each, ...each]);
  assert.deepEqual(feeds["k"]!.shape, [3, 4, 2]);
  assert.deepEqual((all(one(bytes, 7), 12) as Uint8Array[]).flatMap((y) => words(y, 1)), [
    "y0",
    "y1",
  ]);
});

Deno.test("onnxModel() turns the weight of a linear layer and keeps it in the model", () => {
  const op = parseCase("linear:1x2x3");
  const [x, w] = [new Float32Array(3), Float32Array.of(1, 2, 3, 4, 5, 6)];
  const { bytes, feeds } = onnxModel(op, [x, w], 1);
  assert.deepEqual(Object.keys(feeds), ["a"]);
  const constant = one(one(bytes, 7), 5);
  assert.deepEqual(all(constant, 1), [3, 2]);
  assert.deepEqual([...new Float32Array(one(constant, 9).buffer)], [1, 4, 2, 5, 3, 6]);
});

Deno.test("onnxModel() puts channels first on the way in and last on the way out", () => {
  const op = parseCase("conv2d:1x2x3x2");
  const x = Float32Array.of(1, 2, 3, 4, 5, 6);
  const { feeds, output, toOurs } = onnxModel(op, [x, new Float32Array(54)], 1);
  assert.deepEqual([...feeds["x"]!.values], [1, 4, 2, 5, 3, 6]);
  assert.deepEqual(output, [1, 2, 1, 2]);
  assert.deepEqual([...toOurs(Float32Array.of(1, 2, 3, 4))], [1, 3, 2, 4]);
});
