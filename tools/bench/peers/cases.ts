/** The ops that are compared, with their sizes and their work. */

/** One op at one size; f32 throughout. */
export interface OpCase {
  readonly op: "matmul" | "linear" | "attention" | "conv2d";
  /** Sizes as tables have them; `SIZES` names them. */
  readonly shape: string;
  /** The numbers in `shape`. */
  readonly sizes: readonly number[];
  /** Shapes of the inputs, in our layouts. */
  readonly inputs: readonly (readonly number[])[];
  /** Shape of the result, in our layout. */
  readonly output: readonly number[];
  /** Multiplications and additions of the products; a softmax does not count. */
  readonly flops: number;
  /** Bytes that must move at least: every input and the result once. */
  readonly bytes: number;
}

/** Sizes of each op, in the order of a spec such as `linear:32x640x160`; convolutions are 3×3 with a border of 1. */
const SIZES = {
  matmul: ["M", "N", "K"],
  linear: ["M", "N", "K"],
  attention: ["TOKENS", "HEADS", "HEAD_DIM"],
  conv2d: ["HEIGHT", "WIDTH", "IN_CHANNELS", "CHANNELS"],
} as const;

/**
 * Squares, layers of the bundled model (both prompts of a 64×64 picture, and many more tokens), attention of a model
 * with 24 heads, and convolutions of decoders: two of the bundled one at 256×256, one of the usual width.
 */
export const DEFAULT_SPECS: readonly string[] = [
  "matmul:512x512x512",
  "matmul:1024x1024x1024",
  "matmul:2048x2048x2048",
  "linear:32x640x160",
  "linear:1280x160x640",
  "attention:1024x24x128",
  "conv2d:64x64x40x40",
  "conv2d:128x128x20x20",
  "conv2d:64x64x128x128",
];

/**
 * Reads a spec.
 *
 * @param spec `OP:SIZExSIZE…`
 * @throws {RangeError} when it names an unknown op or sizes that the op does not take
 */
export function parseCase(spec: string): OpCase {
  const [op = "", shape = ""] = spec.split(":");
  if (!isOp(op)) {
    throw new RangeError(`Cannot compare "${spec}": the ops are ${Object.keys(SIZES).join(", ")}`);
  }
  const sizes = shape.split("x").map(Number);
  const names = SIZES[op];
  const isComplete = sizes.length === names.length;
  if (!isComplete || !sizes.every((size) => Number.isInteger(size) && size > 0)) {
    throw new RangeError(
      `Cannot compare "${spec}": ${op} takes ${names.join("x")}, all of them positive integers`,
    );
  }
  const { inputs, output, flops } = describe(op, sizes);
  const elements = [...inputs, output].map(elementCount);
  const bytes = 4 * elements.reduce((sum, count) => sum + count, 0);
  return { op, shape, sizes, inputs, output, flops, bytes };
}

/** Number of elements of a shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Inputs that differ from each other and from element to element, with variance 1/2 and no pattern that repeats. */
export function makeInputs({ inputs }: OpCase): Float32Array[] {
  return inputs.map((shape, at) =>
    Float32Array.from(
      { length: elementCount(shape) },
      (_, i) => Math.sin(i * (1.3 + 0.377 * at) + 0.9 * at),
    )
  );
}

/**
 * A dense array with its dimensions in another order.
 *
 * @param axes which dimension of `shape` each one of the result is
 */
export function permute(
  values: Float32Array,
  shape: readonly number[],
  axes: readonly number[],
): Float32Array {
  const strides = shape.map((_, axis) => elementCount(shape.slice(axis + 1)));
  const sizes = axes.map((axis) => shape[axis]!);
  const steps = axes.map((axis) => strides[axis]!);
  const result = new Float32Array(values.length);
  const place = new Array<number>(axes.length).fill(0);
  let from = 0;
  for (let i = 0; i < result.length; i++) {
    result[i] = values[from]!;
    for (let axis = axes.length - 1; axis >= 0; axis--) {
      from += steps[axis]!;
      place[axis]!++;
      if (place[axis]! < sizes[axis]!) break;
      from -= steps[axis]! * sizes[axis]!;
      place[axis] = 0;
    }
  }
  return result;
}

function isOp(name: string): name is OpCase["op"] {
  return Object.hasOwn(SIZES, name);
}

function describe(
  op: OpCase["op"],
  sizes: readonly number[],
): { inputs: number[][]; output: number[]; flops: number } {
  const [first, second, third, fourth] = sizes as [number, number, number, number];
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
  }
}
