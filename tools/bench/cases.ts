/** What the op benches measure: ops with their sizes and their work. */

import { bytesPerElement, type StorageFormat } from "../../runtime/dtype.ts";
import { blockBytes, isWeightFormat } from "../../runtime/quantization/formats.ts";

/** Sizes of each op, in the order of a spec such as `linear:32x640x160`; convolutions are 3×3 with a border of 1. */
const SIZES = {
  matmul: ["M", "N", "K"],
  linear: ["M", "N", "K"],
  attention: ["TOKENS", "HEADS", "HEAD_DIM"],
  conv2d: ["HEIGHT", "WIDTH", "IN_CHANNELS", "CHANNELS"],
  conv3d: ["FRAMES", "HEIGHT", "WIDTH", "IN_CHANNELS", "CHANNELS"],
  rms_norm: ["ROWS", "CHANNELS"],
  layer_norm: ["ROWS", "CHANNELS"],
  l2_norm: ["ROWS", "CHANNELS"],
  group_norm: ["POSITIONS", "CHANNELS"],
  softmax: ["ROWS", "COLUMNS"],
} as const;

/** An op that is benched. */
export type OpName = keyof typeof SIZES;

/** Formats that a weight may be stored in; quantised ones are for `linear` only. */
const WEIGHT_FORMATS: readonly StorageFormat[] = [
  "f32",
  "f16",
  "bf16",
  "q8_0",
  "q5_0",
  "q4_0",
  "q4_k",
  "q5_k",
  "q6_k",
  "f8_e4m3",
];

/** Arithmetic operations per element of what is bounded by memory, as the ops themselves count them. */
const NORM_FLOPS = 8;
const SOFTMAX_FLOPS = 5;

/** One op at one size. */
export interface OpCase<Op extends OpName = OpName> {
  readonly op: Op;
  /** Sizes as tables have them, e.g. `32x640x160`. */
  readonly shape: string;
  /** The numbers in `shape`. */
  readonly sizes: readonly number[];
  /** How the second input is stored where it is a weight; everything else is f32. */
  readonly weights: StorageFormat;
  /** Shapes of the inputs. */
  readonly inputs: readonly (readonly number[])[];
  /** Shape of the result. */
  readonly output: readonly number[];
  /** Arithmetic operations; of attention the products only. */
  readonly flops: number;
  /** Bytes that must move at least: every input and the result once. */
  readonly bytes: number;
}

/**
 * Reads a spec.
 *
 * @param spec `OP:SIZExSIZE…`, with `:FORMAT` behind it where the weight is not f32
 * @throws {RangeError} when it names an unknown op, sizes that the op does not take or a format that it does not read
 */
export function parseCase(spec: string): OpCase {
  const [op = "", shape = "", weights = "f32"] = spec.split(":");
  if (!isOp(op)) {
    throw new RangeError(`Cannot bench "${spec}": the ops are ${Object.keys(SIZES).join(", ")}`);
  }
  const sizes = shape.split("x").map(Number);
  const names = SIZES[op];
  const isComplete = sizes.length === names.length;
  if (!isComplete || !sizes.every((size) => Number.isInteger(size) && size > 0)) {
    throw new RangeError(
      `Cannot bench "${spec}": ${op} takes ${names.join("x")}, all of them positive integers`,
    );
  }
  const formats = formatsOf(op);
  const format = formats.find((each) => each === weights);
  if (format === undefined) {
    throw new RangeError(
      `Cannot bench "${spec}" with weights ${weights}: ${op} takes ${formats.join(", ")}`,
    );
  }
  const { inputs, output, flops } = describe(op, sizes);
  const bytes = [...inputs, output].reduce(
    (sum, each, i) => sum + storedBytes(each, i === 1 ? format : "f32"),
    0,
  );
  return { op, shape, sizes, weights: format, inputs, output, flops, bytes };
}

/** The spec that a case is read from; also the name of its figure in the history. */
export function specOf(
  { op, shape, weights }: { op: string; shape: string; weights: string },
): string {
  return weights === "f32" ? `${op}:${shape}` : `${op}:${shape}:${weights}`;
}

/** Number of elements of a shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Inputs that differ from each other and from element to element, with variance 1/2 and no pattern that repeats. */
export function makeInputs({ inputs }: OpCase): Float32Array[] {
  return inputs.map(makeInput);
}

/** One of {@linkcode makeInputs}: the input of that shape in that place. */
export function makeInput(shape: readonly number[], at: number): Float32Array {
  return Float32Array.from(
    { length: elementCount(shape) },
    (_, i) => Math.sin(i * (1.3 + 0.377 * at) + 0.9 * at),
  );
}

function isOp(name: string): name is OpName {
  return Object.hasOwn(SIZES, name);
}

function formatsOf(op: OpName): readonly StorageFormat[] {
  if (op === "linear") return WEIGHT_FORMATS;
  const hasWeight = op === "conv2d" || op === "conv3d";
  return hasWeight ? ["f32", "f16", "bf16"] : ["f32"];
}

function storedBytes(shape: readonly number[], format: StorageFormat): number {
  if (isWeightFormat(format)) return blockBytes(shape, format);
  return elementCount(shape) * bytesPerElement(format);
}

function describe(
  op: OpName,
  sizes: readonly number[],
): { inputs: number[][]; output: number[]; flops: number } {
  const [first, second, third, fourth, fifth] = sizes as [number, number, number, number, number];
  switch (op) {
    case "matmul":
    case "linear": {
      const [m, n, k] = [first, second, third];
      const weight = op === "matmul" ? [k, n] : [n, k];
      return { inputs: [[m, k], weight], output: [m, n], flops: 2 * m * n * k };
    }
    case "attention": {
      const all = [1, first, second, third];
      return { inputs: [all, all, all], output: all, flops: 4 * second * first ** 2 * third };
    }
    case "conv2d": {
      const [height, width, inChannels, channels] = [first, second, third, fourth];
      return {
        inputs: [[1, height, width, inChannels], [channels, 3, 3, inChannels]],
        output: [1, height, width, channels],
        flops: 2 * height * width * channels * 9 * inChannels,
      };
    }
    case "conv3d": {
      const [frames, height, width, inChannels, channels] = [first, second, third, fourth, fifth];
      // Frame t sees min(t + 1, 3) frames; the zeros before the first are skipped.
      const taps = 9 * (frames === 1 ? 1 : 3 * frames - 3);
      return {
        inputs: [[1, frames, height, width, inChannels], [channels, 3, 3, 3, inChannels]],
        output: [1, frames, height, width, channels],
        flops: 2 * height * width * channels * taps * inChannels,
      };
    }
    case "rms_norm":
    case "layer_norm":
    case "l2_norm":
    case "group_norm":
    case "softmax": {
      const perElement = op === "softmax" ? SOFTMAX_FLOPS : NORM_FLOPS;
      return {
        inputs: [[first, second]],
        output: [first, second],
        flops: perElement * first * second,
      };
    }
  }
}
