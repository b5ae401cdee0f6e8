import type { DType } from "../../dtype.ts";
import { isFloat } from "../../dtype.ts";
import { isWeightFormat } from "../../quantization/formats.ts";
import type { Tensor } from "../../graph.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import moveRunsSource from "../../shaders/layout/move_runs.wgsl" with { type: "text" };

const MOVE_RUNS = new KernelFile("layout/move_runs", moveRunsSource);

/** Equally long runs of elements, at equal distances in `x` and in `y`; all in elements. */
export interface Runs {
  readonly count: number;
  readonly run: number;
  readonly xStride: number;
  readonly xStart: number;
  readonly yStride: number;
  readonly yStart: number;
}

/** Traces a copy of runs, four elements at a time where everything divides. */
export function moveRuns(x: Tensor, y: Tensor, runs: Runs): void {
  const { count, run, xStride, xStart, yStride, yStart } = runs;
  const width = [run, xStride, xStart, yStride, yStart].every((size) => size % 4 === 0) ? 4 : 1;
  x.graph.dispatch({
    kernel: MOVE_RUNS.kernel({ WIDTH: width }),
    buffers: { x, y },
    params: {
      count: count * run / width,
      run: run / width,
      x_stride: xStride / width,
      x_start: xStart / width,
      y_stride: yStride / width,
      y_start: yStart / width,
    },
    workgroups: [Math.ceil(count * run / width / 64), 1, 1],
  });
}

/**
 * Type of a moved tensor: storage formats become f32, integers stay.
 *
 * @throws {TypeError} when the tensor is a quantised weight
 */
export function movedDType(x: Tensor): DType {
  if (isWeightFormat(x.dtype)) {
    throw new TypeError(`Cannot move the elements of ${x}: they lie in blocks`);
  }
  return isFloat(x.dtype) ? "f32" : x.dtype;
}
