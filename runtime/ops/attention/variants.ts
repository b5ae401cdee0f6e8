import { roundUp } from "../../shape.ts";
import type { Kernel } from "../../shaders/assemble.ts";
import matrixSource from "../../shaders/attention/matrix.wgsl" with { type: "text" };
import registersSource from "../../shaders/attention/registers.wgsl" with { type: "text" };
import sharedSource from "../../shaders/attention/shared.wgsl" with { type: "text" };
import type { ParamValues } from "../../shaders/expand.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import { MATRIX_SUBGROUPS, matrixUnitOf, unitParams } from "../matrix_unit.ts";
import { hasSubgroupsOf, MESA_SOFTWARE, type Variant } from "../variants.ts";

const MATRIX = new KernelFile("attention/matrix", matrixSource);
const REGISTERS = new KernelFile("attention/registers", registersSource);
const SHARED = new KernelFile("attention/shared", sharedSource);

/** What the choice of a kernel depends on. */
interface AttentionProblem {
  /** Queries. */
  readonly lq: number;
  readonly headDim: number;
  /** Parameters of `shaders/attention/logits.wgsl` besides the head's size. */
  readonly logits: ParamValues;
  /** Queries, keys, values and weights may be rounded to f16. */
  readonly mayRound: boolean;
}

/** A way to attend. */
interface AttentionVariant extends Variant<AttentionProblem> {
  /** The kernel, and the number of queries that one workgroup takes. */
  plan(problem: AttentionProblem, target: Target): { kernel: Kernel; rows: number };
}

/** Invocations per workgroup of the register kernels. */
const LANES = 8;
/** Queries per invocation of the register kernels: with more, neither code nor queries fit the first cache. */
const ROWS = 4;

function registersVariant(name: string, broadcasts: boolean): AttentionVariant {
  return {
    name,
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    supports: (_, { features }) => !broadcasts || hasSubgroupsOf(LANES, features),
    plan({ lq, headDim, logits }) {
      const groups = Math.ceil(lq / LANES);
      const rows = groups <= ROWS + 1 ? groups : ROWS;
      return {
        kernel: REGISTERS.kernel({
          HEAD_DIM: headDim,
          ROWS: rows,
          BROADCASTS: broadcasts,
          ...logits,
        }),
        rows: LANES * rows,
      };
    },
  };
}

/** Queries, and keys per step, of `shared`, and its bytes of workgroup memory: three tiles and a value per invocation. */
const SHARED_TILE = 32;
const SHARED_BYTES = 3 * SHARED_TILE * 9 * 16 + SHARED_TILE * 8 * 4;

/** Queries of a workgroup of `matrix`, and keys per step. */
const MATRIX_ROWS = 16 * MATRIX_SUBGROUPS;
const MATRIX_KEYS = 32;

/** Bytes of workgroup memory of `matrix`: keys or values, scores, weights, one factor per row, a flag. */
function matrixBytes(headDim: number, depth: number): number {
  const keyStep = roundUp(headDim, Math.max(16, depth)) / 4 + 2;
  return 8 * MATRIX_KEYS * keyStep + MATRIX_ROWS * (16 * 9 + 8 * 10) + 4 * MATRIX_ROWS + 4;
}

/**
 * In order of preference within a class of adapters. Of real cards remain to be measured: `matrix` against `shared`, 32
 * against 64 keys per step, 16 against 32 queries per subgroup, and the prefetch of keys.
 */
export const ATTENTION_VARIANTS: readonly AttentionVariant[] = [
  registersVariant("broadcast", true),
  registersVariant("registers", false),
  {
    name: "matrix",
    schedule: "gpu",
    supports({ headDim, mayRound }, target) {
      const unit = matrixUnitOf(target);
      return mayRound && unit !== undefined &&
        target.limits.maxWorkgroupMemoryBytes >= matrixBytes(headDim, unit.k);
    },
    plan: ({ headDim, logits }, target) => ({
      kernel: MATRIX.kernel({
        ...unitParams(matrixUnitOf(target)!),
        HEAD_DIM: headDim,
        ...logits,
      }),
      rows: MATRIX_ROWS,
    }),
  },
  {
    name: "shared",
    schedule: "gpu",
    supports: (_, { limits }) =>
      limits.maxWorkgroupMemoryBytes >= SHARED_BYTES && limits.maxWorkgroupInvocations >= 64,
    plan: ({ headDim, logits }) => ({
      kernel: SHARED.kernel({ HEAD_DIM: headDim, ...logits }),
      rows: SHARED_TILE,
    }),
  },
];
