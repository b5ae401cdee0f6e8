import type { Tensor } from "../../graph/graph.ts";
import { isFloat } from "../../dtype.ts";
import { isWeightFormat } from "../../quantization/formats.ts";
import { formatShape, sameShape } from "../../shape.ts";
import gatherSource from "../../shaders/gather/gather.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";

const GATHER = new KernelFile("gather/gather", gatherSource);

/** Optional parts of a gather. */
export interface GatherOptions {
  /** Added to the rows: the result's shape, any float dtype. */
  readonly addend?: Tensor;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Rows of a table by index, as in an embedding. An index past the end takes the last row: the GPU has no
 * way to throw, so callers check indices before they upload them.
 *
 * @param table [N, C]; f32, f16, bf16 or quantised
 * @param indices [...] u32, below N
 * @returns [..., C] f32
 * @throws {TypeError} when the dtypes differ from these
 * @throws {RangeError} when the table is not a matrix, or the addend has another shape
 */
export function gather(table: Tensor, indices: Tensor, options: GatherOptions = {}): Tensor {
  const { addend } = options;
  if (!(isFloat(table.dtype) || isWeightFormat(table.dtype)) || indices.dtype !== "u32") {
    throw new TypeError(`Cannot gather from ${table} by ${indices}: floats and u32 are needed`);
  }
  if (table.rank !== 2) {
    throw new RangeError(`Cannot gather from ${table} by ${indices}: the table must be [N, C]`);
  }
  const [rows, channels] = table.shape as [number, number];
  const width = channels % 4 === 0 ? 4 : 1;
  const words = channels / width;
  const count = indices.size * words;
  const shape = [...indices.shape, channels];
  if (addend && !(sameShape(addend.shape, shape) && isFloat(addend.dtype))) {
    throw new RangeError(
      `Cannot add ${addend} to rows of ${table}: floats of the shape ${
        formatShape(shape)
      } are needed`,
    );
  }
  const y = table.graph.tensor(options.name ?? "gather", shape);
  table.graph.dispatch({
    kernel: GATHER.kernel({ WIDTH: width, ADDEND: addend !== undefined }),
    buffers: { table, indices, ...(addend && { addend }), y },
    params: { count, words, rows },
    workgroups: [Math.ceil(count / 64), 1, 1],
  });
  return y;
}
