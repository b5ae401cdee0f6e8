/** The compared ops as ONNX models, as an exporter would write them: weights are part of the model. */

import { type OpCase, permute } from "./cases.ts";
import { encodeOnnx, type OnnxConstant, type OnnxGraph, type OnnxNode } from "./onnx.ts";

/** A model with what goes in and comes out. */
interface OnnxModel {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Tensors of the model by name, in its layout. */
  readonly feeds: Readonly<Record<string, { shape: readonly number[]; values: Float32Array }>>;
  /** Shape of every output; they are named `y0`, `y1`, … */
  readonly output: readonly number[];
  /** The elements of an output in our layout. */
  toOurs(values: Float32Array): Float32Array;
}

interface ModelParts extends Omit<OnnxModel, "bytes"> {
  readonly constants: readonly OnnxConstant[];
  /** The nodes of copy `i`; its result is `y{i}`. */
  nodes(i: number): OnnxNode[];
}

const same = (values: Float32Array): Float32Array => values;

/**
 * The model of an op.
 *
 * @param copies how often it computes the op, with an output each
 */
export function onnxModel(
  op: OpCase,
  inputs: readonly Float32Array[],
  copies: number,
): OnnxModel {
  const { constants, nodes, feeds, output, toOurs } = partsOf(op, inputs);
  const indices = Array.from({ length: copies }, (_, i) => i);
  const graph: OnnxGraph = {
    inputs: Object.entries(feeds).map(([name, { shape }]) => ({ name, shape })),
    outputs: indices.map((i) => ({ name: `y${i}`, shape: output })),
    constants,
    nodes: indices.flatMap(nodes),
  };
  return { bytes: encodeOnnx(graph), feeds, output, toOurs };
}

function partsOf(op: OpCase, inputs: readonly Float32Array[]): ModelParts {
  switch (op.op) {
    case "matmul":
    case "linear":
      return product(op, inputs);
    case "attention":
      return attention(op, inputs);
    case "conv2d":
      return conv2d(op, inputs);
  }
}

/** A matrix product; the weight of a linear layer lies transposed. */
function product(op: OpCase, inputs: readonly Float32Array[]): ModelParts {
  const [m, n, k] = op.sizes as [number, number, number];
  const [a, b] = inputs as [Float32Array, Float32Array];
  const isLinear = op.op === "linear";
  const weight = { shape: [k, n], values: isLinear ? permute(b, [n, k], [1, 0]) : b };
  return {
    constants: isLinear ? [{ name: "b", ...weight }] : [],
    feeds: { a: { shape: [m, k], values: a }, ...(!isLinear && { b: weight }) },
    output: [m, n],
    toOurs: same,
    nodes: (i) => [{ op: "MatMul", inputs: ["a", "b"], outputs: [`y${i}`] }],
  };
}

/** Attention from its parts, heads first and the keys transposed, so that no op only moves data. */
function attention(op: OpCase, inputs: readonly Float32Array[]): ModelParts {
  const [length, heads, size] = op.sizes as [number, number, number];
  const [q, k, v] = inputs as [Float32Array, Float32Array, Float32Array];
  const ours = [length, heads, size];
  return {
    constants: [{ name: "scale", shape: [1], values: Float32Array.of(1 / Math.sqrt(size)) }],
    feeds: {
      q: { shape: [heads, length, size], values: permute(q, ours, [1, 0, 2]) },
      k: { shape: [heads, size, length], values: permute(k, ours, [1, 2, 0]) },
      v: { shape: [heads, length, size], values: permute(v, ours, [1, 0, 2]) },
    },
    output: [heads, length, size],
    toOurs: (values) => permute(values, [heads, length, size], [1, 0, 2]),
    nodes: (i) => [
      { op: "Mul", inputs: ["q", "scale"], outputs: [`scaled${i}`] },
      { op: "MatMul", inputs: [`scaled${i}`, "k"], outputs: [`logits${i}`] },
      {
        op: "Softmax",
        inputs: [`logits${i}`],
        outputs: [`weights${i}`],
        attributes: { axis: { int: -1 } },
      },
      { op: "MatMul", inputs: [`weights${i}`, "v"], outputs: [`y${i}`] },
    ],
  };
}

/** A 3×3 convolution, channels first: ONNX knows no other. */
function conv2d(op: OpCase, inputs: readonly Float32Array[]): ModelParts {
  const [height, width, inChannels, channels] = op.sizes as [number, number, number, number];
  const [x, w] = inputs as [Float32Array, Float32Array];
  const values = permute(w, op.inputs[1]!, [0, 3, 1, 2]);
  return {
    constants: [{ name: "w", shape: [channels, inChannels, 3, 3], values }],
    feeds: {
      x: { shape: [1, inChannels, height, width], values: permute(x, op.inputs[0]!, [0, 3, 1, 2]) },
    },
    output: [1, channels, height, width],
    toOurs: (result) => permute(result, [1, channels, height, width], [0, 2, 3, 1]),
    nodes: (i) => [{
      op: "Conv",
      inputs: ["x", "w"],
      outputs: [`y${i}`],
      attributes: { pads: { ints: [1, 1, 1, 1] }, kernel_shape: { ints: [3, 3] } },
    }],
  };
}
