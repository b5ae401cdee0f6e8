/** The ops that are compared: those that everybody has, in f32 throughout. */

import * as all from "../../../report/op_cases.ts";

/** An op that all contenders know. */
const OPS = ["matmul", "linear", "attention", "conv2d"] as const;

/** One op at one size. */
export type OpCase = all.OpCase<typeof OPS[number]>;

/**
 * Squares; layers of the bundled model (a image of 64×64 and of 96×96, both prompts) and of a transformer of 3840
 * channels; attention of a model with 24 heads; convolutions of decoders: two of the bundled one, one of the usual
 * width.
 */
export const DEFAULT_SPECS: readonly string[] = [
  "matmul:512x512x512",
  "matmul:1024x1024x1024",
  "matmul:2048x2048x2048",
  "linear:32x160x160",
  "linear:32x480x160",
  "linear:32x640x160",
  "linear:32x160x640",
  "linear:72x640x160",
  "linear:72x160x640",
  "linear:256x3840x3840",
  "linear:256x10240x3840",
  "linear:256x3840x10240",
  "attention:1024x24x128",
  "conv2d:64x64x40x40",
  "conv2d:128x128x20x20",
  "conv2d:64x64x128x128",
];

/**
 * Reads a spec of what can be compared.
 *
 * @param spec `OP:SIZExSIZE…`
 * @throws {RangeError} when it is none, or one of an op or a format that the others do not have
 */
export function parseCase(spec: string): OpCase {
  const parsed = all.parseCase(spec);
  if (!isCompared(parsed)) {
    throw new RangeError(`Cannot compare "${spec}": peers have ${OPS.join(", ")}, in f32`);
  }
  return parsed;
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
  const strides = shape.map((_, axis) => all.elementCount(shape.slice(axis + 1)));
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

function isCompared(parsed: all.OpCase): parsed is OpCase {
  return parsed.weights === "f32" && (OPS as readonly string[]).includes(parsed.op);
}
