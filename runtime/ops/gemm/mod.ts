/** Matrix products: what `linear` and `matmul` have in common, and the choice of the kernel. */
import { isFloat } from "../../dtype.ts";
import type { Tensor } from "../../graph/graph.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import type { Target } from "../../target.ts";
import { FEW_LARGE_TILES, FEW_TILES, matrixOrder } from "../matrix_unit.ts";
import { layerNorm, type LayerNormOptions } from "../norm/layer_norm.ts";
import { linearClass, matmulClass } from "../problem_class.ts";
import { chooseVariant, hasFewRegisters } from "../variants.ts";
import { INT8 } from "./int8.ts";
import { MATRIX_VARIANTS } from "./matrix.ts";
import { normOperands } from "./norm.ts";
import type { GemmProblem, GemmVariant } from "./problem.ts";
import { BROADCAST, BROADCAST_24, BROADCAST_8, REGISTERS, suitsWideTiles } from "./registers.ts";
import {
  FEW_ROWS,
  HALF_128X64,
  ROWS,
  SHARED_128,
  SHARED_128X64,
  SHARED_32,
  SHARED_64,
  SHORT_ROWS,
  SLICED_32,
  SLICED_64X32,
} from "./shared.ts";

/** Names of the variants of `linear` and `matmul` on operands of 16 bits and more; `matmul` has all but `rows`. */
export const GEMM_VARIANTS: readonly string[] = [
  BROADCAST,
  BROADCAST_8,
  REGISTERS,
  ROWS,
  ...MATRIX_VARIANTS,
  SHARED_128,
  SHARED_128X64,
  SHARED_64,
  SHARED_32,
  SLICED_32,
  SLICED_64X32,
  HALF_128X64,
].map(({ name }) => name);

/** Dispatches a product with the kernel that suits the target. */
export function dispatchGemm(
  op: string,
  given: GemmProblem,
  buffers: Readonly<Record<string, Tensor>> & { readonly y: Tensor },
  params: Readonly<Record<string, number>>,
  norm?: LayerNormOptions,
): void {
  const { graph } = buffers.y;
  const { m, n, k, batch, layout } = given;
  const sizes = { rows: m, columns: n };
  const problemClass = op === "linear"
    ? linearClass({ ...sizes, weight: buffers["b"]!.dtype })
    : matmulClass({ ...sizes, layout, count: batch?.count ?? 1 });
  // Kernels that round have a binding more, for their counter.
  const bindings = graph.bindingsOf(Object.values(buffers)) + 1;
  const mayRound = given.mayRound && bindings <= graph.target.limits.maxStorageBuffers;
  const problem = { ...given, mayRound };
  const variant = chooseVariant(
    op,
    byPreference(problem, graph.target),
    problem,
    graph.target,
    problemClass,
  );
  const own = norm && variant.normalizes?.(problem) ? normOperands(norm, k, buffers) : undefined;
  const input = norm && !own ? layerNorm(buffers["a"]!, norm) : buffers["a"]!;
  const a = variant.prepare?.(problem, input) ?? input;
  const operands = { ...buffers, ...own?.buffers, a };
  const more = variant.asks?.(problem) && graph.target.schedule === "cpu"
    ? askedOperands(problem, own !== undefined, { ...operands, b: buffers["b"]! })
    : undefined;
  const { kernel, workgroups } = variant.plan(
    { ...problem, ...(own && { norm: own.norm }), ...(more && { asked: more.asked }) },
    graph.target,
  );
  graph.dispatch({
    kernel,
    buffers: { ...operands, ...more?.buffers },
    params: {
      m,
      n: given.epilogue.glu ? n / 2 : n,
      k,
      band: workgroups[0],
      ...(batch
        ? {
          batch_inner: batch.inner,
          a_outer: batch.aOuter,
          a_inner: batch.aInner,
          b_outer: batch.bOuter,
          b_inner: batch.bInner,
        }
        : {}),
      ...(norm && { norm_eps: norm.eps }),
      ...more?.params,
      ...params,
    },
    workgroups,
    layer: op === "linear" ? buffers["b"]!.name : buffers.y.name,
    factors: given.mayRound ? ["a", "b"] : undefined,
    flops: 2 * m * n * (k * (batch?.count ?? 1) + (params["rank"] ?? 0)),
  });
}

function byPreference(problem: GemmProblem, { features }: Target): readonly GemmVariant[] {
  const { m, n, batch } = problem;
  const tiles = (side: number) => Math.ceil(m / side) * Math.ceil(n / side) * (batch?.count ?? 1);
  const isFew = tiles(64) < FEW_TILES;
  const large = Math.ceil(m / 128) * Math.ceil(n / 128) * (batch?.count ?? 1);
  const sliced = hasFewRegisters(features) ? [SLICED_32, SLICED_64X32] : [SLICED_64X32, SLICED_32];
  const shared = isFew || m <= SHORT_ROWS
    ? [...sliced, SHARED_32, SHARED_64, SHARED_128X64, SHARED_128]
    : hasFewRegisters(features)
    ? [SHARED_128X64, SHARED_32, SHARED_64, SHARED_128]
    : large >= FEW_LARGE_TILES
    ? [SHARED_128, SHARED_64, SHARED_128X64, SHARED_32]
    : [SHARED_64, SHARED_32, SHARED_128X64, SHARED_128];
  const matrix = matrixOrder(m, n, batch?.count ?? 1)
    .map((name) => MATRIX_VARIANTS.find((variant) => variant.name === name)!);
  // Whether f16 tiles win anywhere is not measured yet, so that only a tuning run takes them.
  const tiled = [...matrix, ...shared, HALF_128X64];
  const gpu = m <= FEW_ROWS || tiles(32) < FEW_TILES ? [ROWS, ...tiled] : [...tiled, ROWS];
  const broadcast = suitsWideTiles(problem) ? [BROADCAST_8, BROADCAST] : [BROADCAST, BROADCAST_8];
  return [...broadcast, REGISTERS, ...gpu, INT8, BROADCAST_24];
}

/** What a product takes besides its own operands. */
interface AskedOperands {
  /** Parameters of its kernel, in place of those of the epilogue. */
  readonly asked: ParamValues;
  /** Stand-ins, which are bound and not read. */
  readonly buffers: Readonly<Record<string, Tensor>>;
  /** Uniforms. */
  readonly params: Readonly<Record<string, number>>;
}

/** The epilogue with more operands than the product has. */
export function askedOperands(
  { m, n, batch, epilogue }: GemmProblem,
  isNormalised: boolean,
  buffers: Readonly<Record<string, Tensor>> & { readonly a: Tensor; readonly b: Tensor },
): AskedOperands | undefined {
  const { bias, gate, residual, parts, activation, scale, glu } = epilogue;
  if (batch || scale || glu) return undefined;
  const { a, b } = buffers;
  const { graph } = a;
  // Of the weight's format, as a bias is.
  const standIn = isFloat(b.dtype) ? b : a;
  const takesMore = activation === "none" && !isNormalised;
  const takesParts = activation === "none" && !gate && !residual || takesMore;
  const own: Record<string, Tensor> = {
    ...(!bias && { bias: standIn }),
    ...(takesMore && !gate && { gate: a }),
    ...(takesMore && !residual && { residual: a }),
  };
  const others = Object.values(own);
  const bindings = graph.bindingsOf([...Object.values(buffers), ...others]);
  if (
    bindings > graph.target.limits.maxStorageBuffers || graph.bindingsOf(others) > others.length
  ) {
    return undefined;
  }
  return {
    asked: {
      BIAS: true,
      ASKS_BIAS: true,
      ...(takesMore && { GATE: true, RESIDUAL: true, ASKS: true }),
      ...(takesParts && { PARTS: true }),
    },
    buffers: own,
    params: {
      has_bias: Number(bias),
      ...(takesMore && { has_gate: Number(gate), has_residual: Number(residual) }),
      ...(takesMore && !gate && { gate_rows: 1 }),
      ...(takesParts && !parts && { part_columns: n, part_size: m * n }),
    },
  };
}
