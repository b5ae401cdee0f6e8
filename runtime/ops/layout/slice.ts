import type { Tensor } from "../../graph/graph.ts";
import { elementCount, resolveAxis } from "../../shape.ts";
import { movedDType, moveRuns } from "./move_runs.ts";

/**
 * Elements `start … end - 1` along an axis.
 *
 * @param axis negative counts from the end
 * @param start negative counts from the end
 * @param end negative counts from the end; the whole rest when left out
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
