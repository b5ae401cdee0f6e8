import { isFloat } from "../../dtype.ts";
import type { Tensor } from "../../graph/graph.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import groupSource from "../../shaders/softmax/group.wgsl" with { type: "text" };
import rowSource from "../../shaders/softmax/row.wgsl" with { type: "text" };
import { rowClass } from "../problem_class.ts";
import { chooseVariant, MESA_SOFTWARE, type Variant } from "../variants.ts";

/** Optional parts of a softmax. */
export interface SoftmaxOptions {
  /** Factor of the elements before the softmax; 1 by default. */
  readonly scale?: number;
  /** Name of the result, for messages. */
  readonly name?: string;
}

interface SoftmaxVariant extends Variant<null> {
  readonly file: KernelFile;
  readonly rowsPerGroup: number;
}

const VARIANTS: readonly SoftmaxVariant[] = [
  {
    name: "row",
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    supports: () => true,
    file: new KernelFile("softmax/row", rowSource),
    rowsPerGroup: 8,
  },
  {
    name: "group",
    schedule: "gpu",
    supports: () => true,
    file: new KernelFile("softmax/group", groupSource),
    rowsPerGroup: 1,
  },
];

export const SOFTMAX_VARIANTS: readonly string[] = VARIANTS.map(({ name }) => name);

/**
 * y = softmax(scale * x) over the last axis, in f32.
 *
 * @param x [..., N], any float dtype; finite
 * @returns f32, the shape of x
 * @throws {RangeError} when x is not a float tensor with at least one dimension
 */
export function softmax(x: Tensor, options: SoftmaxOptions = {}): Tensor {
  if (x.rank < 1 || !isFloat(x.dtype)) {
    throw new RangeError(`Cannot take the softmax of ${x}: it needs [..., N] in f32, f16 or bf16`);
  }
  const n = x.dim(-1);
  const rows = x.size / n;
  const { graph } = x;
  const problemClass = rowClass({ rows, columns: n });
  const { file, rowsPerGroup } = chooseVariant(
    "softmax",
    VARIANTS,
    null,
    graph.target,
    problemClass,
  );
  const y = graph.tensor(options.name ?? "softmax", x.shape);
  graph.dispatch({
    kernel: file.kernel({ VECTOR_N: n % 4 === 0 }),
    buffers: { x, y },
    params: { rows, n, scale: options.scale ?? 1 },
    workgroups: [Math.ceil(rows / rowsPerGroup), 1, 1],
    flops: 5 * x.size,
  });
  return y;
}
