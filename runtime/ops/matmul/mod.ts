import { isFloat } from "../../dtype.ts";
import type { Tensor } from "../../graph/graph.ts";
import { broadcastShapes } from "../../shape.ts";
import { dispatchGemm } from "../gemm/mod.ts";
import type { GemmBatch } from "../gemm/problem.ts";
import { mayRoundToHalf } from "../matrix_unit.ts";

/** Optional parts of a matrix product. */
export interface MatmulOptions {
  /** b is [..., N, K]. */
  readonly transposeB?: boolean;
  /** Factor of the result; 1 by default. */
  readonly scale?: number;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * y = scale * a · b, matrix by matrix, summed in f32. Leading dimensions broadcast as in NumPy.
 *
 * @param a [..., M, K], any float dtype
 * @param b [..., K, N], or [..., N, K] with `transposeB`; any float dtype
 * @returns f32 [..., M, N]
 * @throws {RangeError} when the shapes do not fit together, or repeat in a pattern of more than two levels
 */
export function matmul(a: Tensor, b: Tensor, options: MatmulOptions = {}): Tensor {
  const { transposeB = false, scale } = options;
  const label = `Cannot multiply ${a} by ${b}${transposeB ? " transposed" : ""}`;
  for (const tensor of [a, b]) {
    if (tensor.rank < 2) throw new RangeError(`${label}: ${tensor} must be a matrix`);
    if (!isFloat(tensor.dtype)) {
      throw new RangeError(`${label}: ${tensor} must be f32, f16 or bf16`);
    }
  }
  const [m, k] = [a.dim(-2), a.dim(-1)];
  const [n, depth] = transposeB ? [b.dim(-2), b.dim(-1)] : [b.dim(-1), b.dim(-2)];
  if (k !== depth) throw new RangeError(`${label}: the inner sizes ${k} and ${depth} differ`);
  const lead = broadcastShapes([a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  const y = a.graph.tensor(options.name ?? "matmul", [...lead, m, n]);
  const isOneB = b.size === n * k;
  const problem = {
    // One b for all of a: the matrices of a are one tall matrix.
    m: isOneB ? a.size / k : m,
    n,
    k,
    layout: transposeB ? ("nk" as const) : ("kn" as const),
    mayRound: mayRoundToHalf("matmul", a.graph, y.name),
    epilogue: {
      scale: scale !== undefined,
      bias: false,
      activation: "none" as const,
      gate: false,
      residual: false,
    },
  };
  const params: Record<string, number> = scale === undefined ? {} : { scale };
  const batch = isOneB ? undefined : batchOf(label, a.shape, b.shape, lead);
  dispatchGemm("matmul", batch ? { ...problem, batch } : problem, { a, b, y }, params);
  return y;
}

/** Leading dimensions as at most two levels of strides. */
function batchOf(
  label: string,
  aShape: readonly number[],
  bShape: readonly number[],
  lead: readonly number[],
): GemmBatch {
  const strides = [aShape, bShape].map((shape) => leadingStrides(shape, lead));
  const levels: { size: number; strides: number[] }[] = [];
  lead.forEach((size, axis) => {
    if (size === 1) return;
    const own = strides.map((steps) => steps[axis]!);
    const last = levels.at(-1);
    if (last && own.every((stride, i) => last.strides[i] === stride * size)) {
      last.size *= size;
      last.strides = own;
    } else levels.push({ size, strides: own });
  });
  if (levels.length > 2) {
    throw new RangeError(
      `${label}: the leading sizes repeat in ${levels.length} levels, at most 2 are supported`,
    );
  }
  while (levels.length < 2) levels.unshift({ size: 1, strides: [0, 0] });
  const [outer, inner] = levels as [(typeof levels)[0], (typeof levels)[0]];
  return {
    count: outer.size * inner.size,
    inner: inner.size,
    aOuter: outer.strides[0]!,
    aInner: inner.strides[0]!,
    bOuter: outer.strides[1]!,
    bInner: inner.strides[1]!,
  };
}

/** Elements from one matrix to the next along every leading dimension of the result; 0 where they repeat. */
function leadingStrides(shape: readonly number[], lead: readonly number[]): number[] {
  const steps = new Array<number>(lead.length).fill(0);
  let stride = shape.at(-1)! * shape.at(-2)!;
  for (let axis = shape.length - 3; axis >= 0; axis--) {
    const size = shape[axis]!;
    if (size > 1) steps[axis + lead.length - (shape.length - 2)] = stride;
    stride *= size;
  }
  return steps;
}
