import type { Tensor } from "../../graph/graph.ts";
import { elementCount, resolveAxis } from "../../shape.ts";
import { movedDType, moveRuns } from "./move_runs.ts";

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
