import { isFloat, type StorageFormat } from "../../dtype.ts";
import type { Graph } from "../../graph/graph.ts";
import type { DeviceTensor } from "../../device/device_tensor.ts";
import { elementCount } from "../../shape.ts";
import mergeSource from "../../shaders/merge/low_rank.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";

/** Fours of columns of a workgroup, and its rows; the kernel has the same. */
const [WORKGROUP_WORDS, ROWS] = [32, 4];

const MERGE = new KernelFile("merge/low_rank", mergeSource);

/** A product and the rows of a weight that it is added to. */
interface LowRankMerge {
  /** Seen as a matrix [N, columns]. */
  readonly weight: DeviceTensor;
  readonly firstRow: number;
  readonly rows: number;
  readonly columns: number;
  /** [rows, R], floats. */
  readonly up: DeviceTensor;
  /** [R, columns], floats. */
  readonly down: DeviceTensor;
  /** [R] f32. */
  readonly scales: DeviceTensor;
  /** u32; the element below becomes 1 when a sum is too large for the weight's type. */
  readonly flags: DeviceTensor;
  readonly flag: number;
}

/** The largest f32 that rounds to a finite element. */
const MOST: Readonly<Record<"f32" | "f16" | "bf16", number>> = {
  f32: 2 ** 127 * (2 - 2 ** -23),
  f16: 65520 - 2 ** -8,
  bf16: 2 ** 127 * (2 - 2 ** -8 - 2 ** -23),
};

/** Whether {@linkcode mergeLowRank} takes a weight of such rows. */
export function takesMerge(dtype: StorageFormat, columns: number): boolean {
  return isFloat(dtype) && columns % 4 === 0;
}

/** In place: W ← W + up · diag(scales) · down, sums in f32, rounded once, ties to even; others keep their bits. */
export function mergeLowRank(graph: Graph, merge: LowRankMerge): void {
  const { weight, firstRow, rows, columns, up, down, scales, flags, flag } = merge;
  const [rank] = scales.shape as [number];
  if (!takesMerge(weight.dtype, columns) || !isFloat(weight.dtype) || rank % 4 !== 0) {
    throw new TypeError(
      `Cannot merge a product of rank ${rank} into "${weight.name}" of ${weight.dtype} with ${columns} columns: ` +
        "floats, and multiples of 4, are needed",
    );
  }
  if ((firstRow + rows) * columns > elementCount(weight.shape)) {
    throw new RangeError(
      `Cannot merge into rows ${firstRow} to ${firstRow + rows} of "${weight.name}": it has fewer`,
    );
  }
  const words = columns / 4;
  graph.dispatch({
    kernel: MERGE.kernel(),
    buffers: {
      weight: graph.use(weight),
      up: graph.use(up),
      down: graph.use(down),
      scales: graph.use(scales),
      flags: graph.use(flags),
    },
    params: {
      first_row: firstRow,
      rows,
      words,
      rank_words: rank / 4,
      flag,
      most: MOST[weight.dtype],
    },
    workgroups: [Math.ceil(words / WORKGROUP_WORDS), Math.ceil(rows / ROWS), 1],
    flops: 2 * rows * columns * rank,
  });
}
