/**
 * ONNX models as bytes: the few messages of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3 that a graph of
 * f32 ops needs, in the wire format of protobuf.
 */

/** A tensor that enters or leaves a graph. */
interface OnnxValue {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A tensor whose elements are part of the model. */
export interface OnnxConstant extends OnnxValue {
  readonly values: Float32Array;
}

/** An attribute: its number decides nothing of its type, so that is said. */
type OnnxAttribute = { readonly ints: readonly number[] } | { readonly int: number };

/** One operator. */
export interface OnnxNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
}

/** A model of f32 tensors. */
export interface OnnxGraph {
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
  readonly constants: readonly OnnxConstant[];
  readonly nodes: readonly OnnxNode[];
}

/** Version of the format, and of ONNX's operators. */
const IR_VERSION = 8;
const OPSET_VERSION = 17;

const FLOAT_TENSOR = 1;
const ATTRIBUTE_INT = 2;
const ATTRIBUTE_INTS = 7;

/** Encodes a model. */
export function encodeOnnx(graph: OnnxGraph): Uint8Array<ArrayBuffer> {
  return message([
    integer(1, IR_VERSION),
    nested(7, [
      ...graph.nodes.map((node) => nested(1, nodeFields(node))),
      text(2, "graph"),
      ...graph.constants.map((constant) => nested(5, constantFields(constant))),
      ...graph.inputs.map((value) => nested(11, valueFields(value))),
      ...graph.outputs.map((value) => nested(12, valueFields(value))),
    ]),
    nested(8, [text(1, ""), integer(2, OPSET_VERSION)]),
  ]);
}

/** The bytes of an integer: seven bits each, the lowest first, negative ones in two's complement of 64 bits. */
export function varint(value: number): Uint8Array<ArrayBuffer> {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest >= 128n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  return Uint8Array.from([...bytes, Number(rest)]);
}

function nodeFields({ op, inputs, outputs, attributes = {} }: OnnxNode): Uint8Array[] {
  return [
    ...inputs.map((name) => text(1, name)),
    ...outputs.map((name) => text(2, name)),
    text(4, op),
    ...Object.entries(attributes).map(([name, value]) =>
      nested(5, [
        text(1, name),
        ..."int" in value
          ? [integer(3, value.int), integer(20, ATTRIBUTE_INT)]
          : [...value.ints.map((each) => integer(8, each)), integer(20, ATTRIBUTE_INTS)],
      ])
    ),
  ];
}

function constantFields({ name, shape, values }: OnnxConstant): Uint8Array[] {
  const count = shape.reduce((product, size) => product * size, 1);
  if (values.length !== count) {
    throw new RangeError(
      `Cannot encode constant "${name}" of shape [${
        shape.join(", ")
      }]: ${values.length} values are given`,
    );
  }
  const raw = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return [
    ...shape.map((size) => integer(1, size)),
    integer(2, FLOAT_TENSOR),
    text(8, name),
    bytes(9, raw),
  ];
}

function valueFields({ name, shape }: OnnxValue): Uint8Array[] {
  const dimensions = shape.map((size) => nested(1, [integer(1, size)]));
  const tensor = nested(1, [integer(1, FLOAT_TENSOR), nested(2, dimensions)]);
  return [text(1, name), nested(2, [tensor])];
}

function integer(field: number, value: number): Uint8Array {
  return message([varint(field << 3), varint(value)]);
}

function text(field: number, value: string): Uint8Array {
  return bytes(field, new TextEncoder().encode(value));
}

function nested(field: number, fields: readonly Uint8Array[]): Uint8Array {
  return bytes(field, message(fields));
}

function bytes(field: number, value: Uint8Array): Uint8Array {
  return message([varint((field << 3) | 2), varint(value.byteLength), value]);
}

function message(fields: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(fields.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let offset = 0;
  for (const field of fields) {
    result.set(field, offset);
    offset += field.byteLength;
  }
  return result;
}
