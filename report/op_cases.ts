/** What the op benches measure: ops with their sizes and their work. */

import { bytesPerElement, type StorageFormat } from "../runtime/dtype.ts";
import type { Bench } from "../runtime/ops/op.ts";
import { OPS } from "../runtime/ops/registry.ts";
import { elementCount } from "../runtime/shape.ts";
import { blockBytes, isWeightFormat } from "../runtime/quantization/formats.ts";

/** Every op that is benched, by the name that specs have, with the name of the op itself. */
const BENCHES: ReadonlyMap<string, { readonly op: string; readonly bench: Bench }> = new Map(
  OPS.flatMap(({ name: op, benches = {} }) =>
    Object.entries(benches).map(([name, bench]) => [name, { op, bench }] as const)
  ),
);

/** One op at one size. */
export interface OpCase<Op extends string = string> {
  /** Name in specs. */
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
 */
export function parseCase(spec: string): OpCase {
  const [op = "", shape = "", weights = "f32"] = spec.split(":");
  const known = BENCHES.get(op);
  if (!known) {
    throw new RangeError(`Cannot bench "${spec}": the ops are ${[...BENCHES.keys()].join(", ")}`);
  }
  const sizes = shape.split("x").map(Number);
  const { sizes: names, weights: formats = ["f32"], describe } = known.bench;
  const isComplete = sizes.length === names.length;
  if (!isComplete || !sizes.every((size) => Number.isInteger(size) && size > 0)) {
    throw new RangeError(
      `Cannot bench "${spec}": ${op} takes ${
        names.join("x")
      }, all of them positive integers; each spec is an argument of its own`,
    );
  }
  const format = formats.find((each) => each === weights);
  if (format === undefined) {
    throw new RangeError(
      `Cannot bench "${spec}" with weights ${weights}: ${op} takes ${formats.join(", ")}`,
    );
  }
  const { inputs, output, flops } = describe(sizes);
  const bytes = [...inputs, output].reduce(
    (sum, each, i) => sum + storedBytes(each, i === 1 ? format : "f32"),
    0,
  );
  return { op, shape, sizes, weights: format, inputs, output, flops, bytes };
}

/** How an op is benched, and the name by which its variants are known. */
export function benchOf(op: string): { readonly op: string; readonly bench: Bench } {
  const known = BENCHES.get(op);
  if (!known) throw new RangeError(`Cannot bench "${op}": it is no op`);
  return known;
}

/** The spec that a case is read from; also the name of its figure in the history. */
export function specOf(
  { op, shape, weights }: { op: string; shape: string; weights: string },
): string {
  return weights === "f32" ? `${op}:${shape}` : `${op}:${shape}:${weights}`;
}

function storedBytes(shape: readonly number[], format: StorageFormat): number {
  if (isWeightFormat(format)) return blockBytes(shape, format);
  return elementCount(shape) * bytesPerElement(format);
}
