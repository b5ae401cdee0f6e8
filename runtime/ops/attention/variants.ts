import { roundUp } from "../../shape.ts";
import type { Kernel } from "../../shaders/kernel.ts";
import matrixSource from "../../shaders/attention/matrix.wgsl" with { type: "text" };
import registersSource from "../../shaders/attention/registers.wgsl" with { type: "text" };
import sharedSource from "../../shaders/attention/shared.wgsl" with { type: "text" };
import type { ParamValues } from "../../shaders/expand.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import {
  MATRIX_SUBGROUPS,
  type MatrixElement,
  type MatrixUnit,
  matrixUnitFor,
  unitParams,
} from "../matrix_unit.ts";
import { hasFewRegisters, hasSubgroupsOf, MESA_SOFTWARE, type Variant } from "../variants.ts";

const MATRIX = new KernelFile("attention/matrix", matrixSource);
const REGISTERS = new KernelFile("attention/registers", registersSource);
const SHARED_FILE = new KernelFile("attention/shared", sharedSource);

/** What the choice of a kernel depends on. */
interface AttentionProblem {
  /** Queries. */
  readonly lq: number;
  readonly headDim: number;
  /** Format of the elements of queries and keys, over all heads. */
  readonly products: number;
  /** Parameters of `shaders/attention/logits.wgsl` besides the head's size. */
  readonly logits: ParamValues;
  /** Queries, keys, values and weights may be rounded to f16. */
  readonly mayRound: boolean;
}

/** A way to attend. */
interface AttentionVariant extends Variant<AttentionProblem> {
  /** Whether the dispatch says what there is of lengths and bias of the last key; see `asked.ts`. */
  asks?(problem: AttentionProblem): boolean;
  /** The kernel, and the number of queries that one workgroup takes. */
  plan(problem: AttentionProblem, target: Target): { kernel: Kernel; rows: number };
}

/** Invocations per workgroup of the register kernels. */
const LANES = 8;
/** Queries per invocation of the register kernels: with more, neither code nor queries fit the first cache. */
const ROWS = 4;
/** Those of longer heads where there is little to do, which is done sooner than the half of a kernel that this spares is compiled. */
const FEW_ROWS = 2;
const SHORT_HEAD = 32;
const FEW_PRODUCTS = 2 ** 22;
/** Words of queries and results that kernels of more products load or store at once. */
const MOVED = 16;
/** Products up to which a kernel more, or a longer one, takes longer to compile than it saves in hundreds of steps. */
const LIGHT_PRODUCTS = 2 ** 25;

/** @param isSpare with one query per invocation, which is the shortest kernel */
function registersVariant(name: string, broadcasts: boolean, isSpare = false): AttentionVariant {
  const isLight = (products: number) => isSpare || products <= LIGHT_PRODUCTS;
  return {
    name,
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    isSpare,
    asks: ({ products }) => isLight(products),
    supports: (_, { features }) => !broadcasts || hasSubgroupsOf(LANES, features),
    plan({ lq, headDim, products, logits }) {
      const groups = Math.ceil(lq / LANES);
      const most = headDim > SHORT_HEAD && products <= FEW_PRODUCTS ? FEW_ROWS : ROWS;
      const rows = isSpare ? 1 : groups <= most + 1 ? groups : most;
      return {
        kernel: REGISTERS.kernel({
          HEAD_DIM: headDim,
          ROWS: rows,
          ...(!isLight(products) && { MOVED }),
          BROADCASTS: broadcasts,
          ...logits,
        }),
        rows: LANES * rows,
      };
    },
  };
}

/** Shape of `shared`. */
interface SharedShape {
  /** Invocations of a row, and of a column. */
  readonly across: 8 | 16;
  readonly down: 8 | 16;
  /** Queries per invocation, and keys per invocation and step. */
  readonly rows: 2 | 4 | 8;
  readonly each: 4 | 8;
}

/** Longest head of which Intel's registers hold the results of four queries. */
const LONG_HEAD = 128;
/** Longest head whose results fit into the registers if only 8 invocations share a row. */
const NARROW_HEAD = 80;

/** Fewer queries where they hold them all, or where registers are few. */
function sharedShape({ lq, headDim }: AttentionProblem, { features }: Target): SharedShape {
  if (hasFewRegisters(features)) {
    const isLong = headDim > LONG_HEAD && features.subgroupMinSize <= 16;
    return { across: 16, down: 8, rows: isLong ? 2 : 4, each: 4 };
  }
  if (lq <= 64) return { across: 8, down: 16, rows: lq <= 32 ? 2 : 4, each: 8 };
  return { across: headDim <= NARROW_HEAD ? 8 : 16, down: 16, rows: 8, each: 8 };
}

/** Exchanges by which subgroups reduce a row, which leave `parts` of it. */
function sharedReduction(across: number, { features }: Target) {
  const least = features.subgroups ? features.subgroupMinSize : 1;
  const shuffled = least >= across ? Math.log2(across) : least >= 8 ? 3 : 0;
  return { shuffled, parts: across / 2 ** shuffled };
}

/** Bytes of workgroup memory of `shared`, at most: keys or values, queries or weights, ends of values, where keys end, maxima. */
function sharedBytes(problem: AttentionProblem, target: Target): number {
  const { across, down, rows, each } = sharedShape(problem, target);
  const { parts } = sharedReduction(across, target);
  const strips = Math.ceil(problem.headDim / 4 / across);
  const keys = across * each * 5;
  const values = Math.ceil(4 * strips / each) * each * down / 4 * across;
  const queries = rows * down;
  const weights = queries * (queries * across * each > 2048 ? 9 : across * each / 4 + 1);
  const tail = down * across * 3 / 4;
  return 16 * (Math.max(keys, values) + weights + tail + 1) +
    (parts > 1 ? 4 * queries * parts : 0);
}

const SHARED_VARIANT: AttentionVariant = {
  name: "shared",
  schedule: "gpu",
  supports(problem, target) {
    const { across, down } = sharedShape(problem, target);
    return target.limits.maxWorkgroupMemoryBytes >= sharedBytes(problem, target) &&
      target.limits.maxWorkgroupInvocations >= across * down;
  },
  plan(problem, target) {
    const { across, down, rows, each } = sharedShape(problem, target);
    const { shuffled, parts } = sharedReduction(across, target);
    return {
      kernel: SHARED_FILE.kernel({
        HEAD_DIM: problem.headDim,
        ACROSS: across,
        DOWN: down,
        ROWS: rows,
        EACH: each,
        SHUFFLED: shuffled,
        PARTS: parts,
        ...problem.logits,
      }),
      rows: down * rows,
    };
  },
};

/**
 * Keys per step of `matrix`, by factor: twice as wide ones leave room for half as many. The first that fit are taken;
 * weights meet values over a step's keys, so that a step is a whole number of the unit's depths.
 */
const MATRIX_KEYS: Readonly<Record<MatrixElement, readonly number[]>> = {
  f16: [32, 16],
  f32: [16],
};

/**
 * Bytes of workgroup memory of `matrix`: keys or values, scores, weights, one factor per row, a flag.
 */
function matrixBytes(
  headDim: number,
  { element, k }: MatrixUnit,
  rows: number,
  keys: number,
): number {
  const dim = roundUp(headDim, Math.max(16, k));
  const tile = Math.max(keys * (dim / 4 + 2), dim * (keys / 4 + 2));
  const vectorBytes = element === "f16" ? 8 : 16;
  const row = 16 * (keys / 4 + 1) + vectorBytes * (keys / 4 + 2) + 4;
  return vectorBytes * tile + rows * row + 4;
}

function matrixVariant(name: string, ownRows: 16 | 32): AttentionVariant {
  const rows = ownRows * MATRIX_SUBGROUPS;
  const unitOf = ({ mayRound }: AttentionProblem, target: Target) =>
    matrixUnitFor(mayRound, target);
  const keysOf = (headDim: number, unit: MatrixUnit, { limits }: Target) =>
    MATRIX_KEYS[unit.element].find((keys) =>
      keys % unit.k === 0 &&
      matrixBytes(headDim, unit, rows, keys) <= limits.maxWorkgroupMemoryBytes
    );
  return {
    name,
    schedule: "gpu",
    supports(problem, target) {
      const unit = unitOf(problem, target);
      // Where fewer queries are one workgroup's, most of it would be idle; results of longer heads fit no registers.
      const suits = problem.lq > rows / 2 && problem.headDim <= 128;
      return unit !== undefined && (ownRows === 16 || suits) &&
        keysOf(problem.headDim, unit, target) !== undefined;
    },
    plan(problem, target) {
      const unit = unitOf(problem, target)!;
      return {
        kernel: MATRIX.kernel({
          ...unitParams(unit),
          OWN_ROWS: ownRows,
          KEYS: keysOf(problem.headDim, unit, target)!,
          HEAD_DIM: problem.headDim,
          ...problem.logits,
        }),
        rows,
      };
    },
  };
}

/**
 * In order of preference within a class of adapters. Of real cards remain to be measured: `matrix` and
 * `shared` against each other; `matrix128`, which has 32 queries per subgroup in
 * place of 16; and 32 keys per step against 64.
 */
export const ATTENTION_VARIANTS: readonly AttentionVariant[] = [
  registersVariant("broadcast", true),
  registersVariant("registers", false),
  matrixVariant("matrix", 16),
  matrixVariant("matrix128", 32),
  SHARED_VARIANT,
  registersVariant("broadcast8", true, true),
];
