import type { DType } from "../../dtype.ts";
import { bytesPerElement, isFloat } from "../../dtype.ts";
import { isWeightFormat } from "../../quantization/formats.ts";
import type { Tensor } from "../../graph/graph.ts";
import type { Kernel } from "../../shaders/kernel.ts";
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

const KERNELS = { 1: MOVE_RUNS.kernel({ WIDTH: 1 }), 4: MOVE_RUNS.kernel({ WIDTH: 4 }) } as const;

/** Elements per access of the kernels that copy runs. Their parameters are in words of so many, in the order of {@linkcode Runs}. */
export const MOVE_RUNS_WORDS: ReadonlyMap<Kernel, 1 | 4> = new Map([[KERNELS[1], 1], [
  KERNELS[4],
  4,
]]);

/** Traces a copy of runs, four elements at a time where everything divides. */
export function moveRuns(x: Tensor, y: Tensor, runs: Runs): void {
  const { count, run, xStride, xStart, yStride, yStart } = runs;
  const width = [run, xStride, xStart, yStride, yStart].every((size) => size % 4 === 0) ? 4 : 1;
  x.graph.dispatch({
    kernel: KERNELS[width],
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
    bytes: count * run * (bytesPerElement(x.dtype as DType) + bytesPerElement(y.dtype as DType)),
  });
}

/** Type of a moved tensor: storage formats become f32, integers stay. */
export function movedDType(x: Tensor): DType {
  if (isWeightFormat(x.dtype)) {
    throw new TypeError(`Cannot move the elements of ${x}: they lie in blocks`);
  }
  return isFloat(x.dtype) ? "f32" : x.dtype;
}
