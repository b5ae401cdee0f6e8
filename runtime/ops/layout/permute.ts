import type { Tensor } from "../../graph/graph.ts";
import { stridesOf } from "../../shape.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import permuteSource from "../../shaders/layout/permute.wgsl" with { type: "text" };
import { movedDType } from "./move_runs.ts";

const PERMUTE = new KernelFile("layout/permute", permuteSource);

/**
 * Reorders dimensions: dimension i of the result is dimension `axes[i]` of `x`. Patches and pixel shuffles
 * are a reshape, this, and a reshape.
 *
 * @param axes every dimension of `x` once
 * @returns dense copy, f32 for floats; a reshape of `x` when no f32 element has to move
 * @throws {RangeError} when `axes` is not a permutation of the dimensions
 */
export function permute(
  x: Tensor,
  axes: readonly number[],
  options: { name?: string } = {},
): Tensor {
  const isPermutation = axes.length === x.rank &&
    axes.toSorted((a, b) => a - b).every((axis, i) => axis === i);
  if (!isPermutation) {
    throw new RangeError(
      `Cannot permute ${x} by [${axes.join(", ")}]: each of its ${x.rank} axes is needed once`,
    );
  }
  const shape = axes.map((axis) => x.shape[axis]!);
  const strides = stridesOf(x.shape);
  const merged = mergeDimensions(shape, axes.map((axis) => strides[axis]!));
  const dtype = movedDType(x);
  if (merged.sizes.length === 1 && merged.strides[0] === 1 && x.dtype === dtype) {
    return x.reshape(...shape);
  }
  const { sizes } = merged;
  const rank = sizes.length;
  const isVectored = merged.strides[rank - 1] === 1 && sizes[rank - 1]! % 4 === 0 &&
    merged.strides.slice(0, -1).every((stride) => stride % 4 === 0);
  const width = isVectored ? 4 : 1;
  const params: Record<string, number> = { count: x.size / width };
  sizes.forEach((size, axis) => {
    const isInner = axis === rank - 1;
    params[`stride_${axis}`] = isInner ? merged.strides[axis]! : merged.strides[axis]! / width;
    if (axis > 0) params[`size_${axis}`] = isInner ? size / width : size;
  });
  const y = x.graph.tensor(options.name ?? "permute", shape, dtype);
  x.graph.dispatch({
    kernel: PERMUTE.kernel({ RANK: rank, WIDTH: width }),
    buffers: { x, y },
    params,
    workgroups: [Math.ceil(x.size / width / 64), 1, 1],
  });
  return y;
}

/** Drops sizes of 1 and joins neighbours that `x` walks through in one stride; at least one dimension is left. */
function mergeDimensions(
  shape: readonly number[],
  strides: readonly number[],
): { sizes: number[]; strides: number[] } {
  const sizes: number[] = [];
  const merged: number[] = [];
  shape.forEach((size, i) => {
    const stride = strides[i]!;
    if (size === 1) return;
    if (sizes.length > 0 && merged.at(-1) === stride * size) {
      sizes[sizes.length - 1]! *= size;
      merged[merged.length - 1] = stride;
    } else {
      sizes.push(size);
      merged.push(stride);
    }
  });
  return sizes.length > 0 ? { sizes, strides: merged } : { sizes: [1], strides: [1] };
}
