/**
 * Elementwise arithmetic from a WGSL expression, with NumPy broadcasting.
 *
 * `elementwise("a * (1 + scale) + shift", { a, scale, shift })` computes in f32; the names in the expression are
 * those of the tensors, of `scalars`, and WGSL's built-in functions, plus `act_silu(x)` and its like.
 */
import type { Tensor } from "../../graph/graph.ts";
import { broadcastShapes, stridesOf } from "../../shape.ts";
import elementwiseSource from "../../shaders/elementwise/elementwise.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import { ACTIVATIONS } from "../activations.ts";

const ELEMENTWISE = new KernelFile("elementwise/elementwise", elementwiseSource);

/** Optional parts of an elementwise computation. */
export interface ElementwiseOptions {
  /**
   * Numbers used in the expression by name, as if they were inputs of the same type: `max(a, least)`. They are not
   * compiled in, so changing them costs nothing.
   */
  readonly scalars?: Readonly<Record<string, number>>;
  /** How the result is stored; f16 needs rows of a multiple of 4 elements. */
  readonly dtype?: "f32" | "f16";
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Computes an expression for every element of tensors that broadcast together.
 *
 * @param expression WGSL over the input names, valid for `f32` and `vec4<f32>` alike (write `1.0 * a`, not `f32(a)`)
 * @param inputs float tensors whose shapes broadcast together
 * @returns tensor of the broadcast shape
 * @throws {RangeError} when the shapes do not broadcast
 */
export function elementwise(
  expression: string,
  inputs: Readonly<Record<string, Tensor>>,
  options: ElementwiseOptions = {},
): Tensor {
  const entries = Object.entries(inputs);
  const first = entries[0]?.[1];
  if (!first) throw new TypeError(`Cannot compute "${expression}": no tensor is given`);
  const shape = broadcastShapes(entries.map(([, tensor]) => tensor.shape));
  const strides = entries.map(([, tensor]) => broadcastStrides(tensor.shape, shape));
  const merged = mergeDimensions(shape, strides);
  const inner = merged.shape.at(-1)!;
  const innerStrides = merged.strides.map((own) => own.at(-1)!);
  const isVectored = inner % 4 === 0 &&
    merged.strides.every((own, i) =>
      innerStrides[i] === 0 || own.slice(0, -1).every((stride) => stride % 4 === 0)
    );
  const width = isVectored ? 4 : 1;
  const { scalars = {} } = options;
  const isSplat = (i: number) => isVectored && innerStrides[i] === 0;
  const kernel = ELEMENTWISE.kernel({
    EXPRESSION: expression,
    ACTIVATIONS: ACTIVATIONS.filter((name) => expression.includes(`act_${name}(`)),
    INPUTS: Object.keys(inputs),
    SPLATS: Object.keys(inputs).filter((_, i) => isSplat(i)),
    SCALARS: Object.keys(scalars),
    RANK: merged.shape.length,
    WIDTH: width,
  });
  const { graph } = first;
  const result = graph.tensor(options.name ?? "elementwise", shape, options.dtype);
  const count = result.size / width;
  const params: Record<string, number> = { count, ...scalars };
  merged.shape.forEach((size, axis) => params[`size_${axis}`] = size);
  entries.forEach(([name], i) =>
    merged.strides[i]!.forEach((stride, axis) => params[`${name}_stride_${axis}`] = stride)
  );
  graph.dispatch({
    kernel,
    buffers: { ...inputs, result },
    params,
    workgroups: [Math.ceil(count / 64), 1, 1],
    flops: result.size,
  });
  return result;
}

/** Strides of a tensor seen under a broadcast shape: 0 along the dimensions it is repeated over. */
function broadcastStrides(own: readonly number[], shape: readonly number[]): number[] {
  const strides = stridesOf(own);
  const lead = shape.length - own.length;
  return shape.map((
    _,
    axis,
  ) => (axis < lead || own[axis - lead] === 1 ? 0 : strides[axis - lead]!));
}

/** Merges neighbouring dimensions that every input walks through in one stride; at least one dimension is left. */
export function mergeDimensions(
  shape: readonly number[],
  strides: readonly (readonly number[])[],
): { shape: number[]; strides: number[][] } {
  const sizes: number[] = [];
  const merged: number[][] = strides.map(() => []);
  shape.forEach((size, axis) => {
    if (size === 1) return;
    const joins = sizes.length > 0 &&
      strides.every((own, i) => merged[i]!.at(-1) === own[axis]! * size);
    if (joins) {
      sizes[sizes.length - 1]! *= size;
      strides.forEach((own, i) => merged[i]![sizes.length - 1] = own[axis]!);
    } else {
      sizes.push(size);
      strides.forEach((own, i) => merged[i]!.push(own[axis]!));
    }
  });
  if (sizes.length === 0) {
    sizes.push(1);
    merged.forEach((own) => own.push(0));
  }
  return { shape: sizes, strides: merged };
}
