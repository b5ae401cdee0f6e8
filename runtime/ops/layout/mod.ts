import { mergeDimensions } from "../elementwise/mod.ts";
import type { Tensor } from "../../graph/graph.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import permuteSource from "../../shaders/layout/permute.wgsl" with { type: "text" };
import { elementCount, resolveAxis, stridesOf } from "../../shape.ts";
import { movedDType, moveRuns } from "./move_runs.ts";

/** Moving elements without changing them. */

/**
 * Tensors one after the other along an axis.
 *
 * @param tensors at least one; same sizes but along `axis`
 * @param axis negative counts from the end
 * @returns dense copy, f32 for floats; the tensor itself when only one f32 tensor is given
 * @throws {RangeError} when other sizes differ
 * @throws {TypeError} when floats and integers are mixed
 */
export function concat(
  tensors: readonly Tensor[],
  axis: number,
  options: { name?: string } = {},
): Tensor {
  const first = tensors[0];
  if (!first) throw new RangeError("Cannot concatenate tensors: none is given");
  const along = resolveAxis(axis, first.rank);
  const dtype = movedDType(first);
  let total = 0;
  for (const tensor of tensors) {
    const fits = tensor.rank === first.rank &&
      tensor.shape.every((size, i) => i === along || size === first.shape[i]);
    if (!fits) {
      throw new RangeError(
        `Cannot concatenate ${first} and ${tensor} along axis ${along}: their other sizes differ`,
      );
    }
    if (movedDType(tensor) !== dtype) {
      throw new TypeError(`Cannot concatenate ${first} and ${tensor}: their types differ`);
    }
    total += tensor.dim(along);
  }
  if (tensors.length === 1 && first.dtype === dtype) return first;
  const shape = first.shape.with(along, total);
  const inner = elementCount(shape.slice(along + 1));
  const y = first.graph.tensor(options.name ?? "concat", shape, dtype);
  let start = 0;
  for (const x of tensors) {
    const run = x.dim(along) * inner;
    moveRuns(x, y, {
      count: x.size / run,
      run,
      xStride: run,
      xStart: 0,
      yStride: total * inner,
      yStart: start,
    });
    start += run;
  }
  return y;
}

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
  const { shape: sizes, strides: [merged = []] } = mergeDimensions(shape, [
    axes.map((axis) => strides[axis]!),
  ]);
  const dtype = movedDType(x);
  const rank = sizes.length;
  const isInPlace = rank === 1 && (merged[0] === 1 || x.size === 1);
  if (isInPlace && x.dtype === dtype) return x.reshape(...shape);
  const isVectored = merged[rank - 1] === 1 && sizes[rank - 1]! % 4 === 0 &&
    merged.slice(0, -1).every((stride) => stride % 4 === 0);
  const width = isVectored ? 4 : 1;
  const params: Record<string, number> = { count: x.size / width };
  sizes.forEach((size, axis) => {
    const isInner = axis === rank - 1;
    params[`stride_${axis}`] = isInner ? merged[axis]! : merged[axis]! / width;
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

/**
 * Elements `start … end - 1` along an axis.
 *
 * @param axis negative counts from the end
 * @param start negative counts from the end
 * @param end negative counts from the end; the whole rest by default
 * @returns f32 for floats. What lies in one range that can be bound, of an f32 tensor, is shown where it is; anything
 *   else is a dense copy
 * @throws {RangeError} when the range is empty or leaves the tensor
 */
export function slice(
  x: Tensor,
  axis: number,
  start: number,
  end?: number,
  options: { name?: string } = {},
): Tensor {
  const along = resolveAxis(axis, x.rank);
  const size = x.dim(along);
  const first = start < 0 ? start + size : start;
  const last = end === undefined ? size : end < 0 ? end + size : end;
  const isRange = Number.isInteger(first) && Number.isInteger(last) && first >= 0 &&
    first < last && last <= size;
  if (!isRange) {
    throw new RangeError(
      `Cannot slice ${x} from ${start} to ${
        end ?? "its end"
      } along axis ${along}: its size there is ${size}`,
    );
  }
  const dtype = movedDType(x);
  const inner = elementCount(x.shape.slice(along + 1));
  const run = (last - first) * inner;
  const shape = x.shape.with(along, last - first);
  if (last - first === size && x.dtype === dtype) return x;
  if (elementCount(x.shape.slice(0, along)) === 1 && x.dtype === dtype) {
    const shown = x.range(first * inner, shape);
    if (shown) return shown;
  }
  const y = x.graph.tensor(options.name ?? "slice", shape, dtype);
  moveRuns(x, y, {
    count: y.size / run,
    run,
    xStride: size * inner,
    xStart: first * inner,
    yStride: run,
    yStart: 0,
  });
  return y;
}
