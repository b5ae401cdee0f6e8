/** Matrix products: what `linear` and `matmul` have in common, and the choice of the kernel. */
import type { Tensor } from "../graph.ts";
import type { Kernel } from "../shaders/assemble.ts";
import type { GemmEpilogue } from "../shaders/gemm_epilogue.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { BLOCK_FORMATS } from "../quantization/formats.ts";
import { GEMM_INT8_BYTES, GEMM_INT8_TILE, gemmInt8Kernel } from "../shaders/gemm_int8.ts";
import { QUANTIZE_ROWS, ROW_HEADER } from "../shaders/quantize_rows.ts";
import type { GemmNorm } from "../shaders/gemm_norm.ts";
import { GEMM_LANES, gemmRegistersKernel } from "../shaders/gemm_registers.ts";
import { GEMM_ROWS_COLUMNS, gemmRowsKernel } from "../shaders/gemm_rows.ts";
import { gemmSharedKernel } from "../shaders/gemm_shared.ts";
import type { Target } from "../target.ts";
import { matrixVariant } from "./gemm_matrix.ts";
import { normOperands, sparesNorm } from "./gemm_norm.ts";
import { layerNorm, type LayerNormOptions } from "./norm/layer_norm.ts";
import { linearClass, matmulClass } from "./problem_class.ts";
import { chooseVariant, hasSubgroupsOf, type Variant } from "./variants.ts";

/** Sizes and structure of a product y = epilogue(a · b). */
export interface GemmProblem {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Layout of b: rows of k (`nk`), or rows of n (`kn`). */
  readonly layout: "nk" | "kn";
  /** Matrices in the batch, and how a batch index becomes offsets into a and b. */
  readonly batch?: GemmBatch;
  readonly epilogue: GemmEpilogue;
  /** How b is stored when it is a quantised weight. */
  readonly format?: WeightFormat;
  /** Factors may be rounded to f16. */
  readonly mayRound: boolean;
  /** Rows of a are normalised by the kernel. */
  readonly norm?: GemmNorm;
}

/** A batch: matrix z is made from a at `floor(z / inner) * aOuter + (z % inner) * aInner` elements, b likewise. */
export interface GemmBatch {
  readonly count: number;
  readonly inner: number;
  readonly aOuter: number;
  readonly aInner: number;
  readonly bOuter: number;
  readonly bInner: number;
}

/** A way to compute a product. */
export interface GemmVariant extends Variant<GemmProblem> {
  /** The kernel and its grid. */
  plan(
    problem: GemmProblem,
    target: Target,
  ): { kernel: Kernel; workgroups: [number, number, number] };
  /** Whether to leave it to the kernel to normalise the rows of a, rather than to one before it. */
  normalizes?(problem: GemmProblem): boolean;
  /** What the kernel takes in place of a, where that is not a itself. */
  prepare?(problem: GemmProblem, a: Tensor): Tensor;
}

/** Rows of a product that the few-rows kernel takes, or columns, as of the inner factor of a low-rank branch. */
const FEW_ROWS = 4;
const FEW_COLUMNS = 128;
/** Rows of a product that one register tile of 8 columns takes. */
const LOW_ROWS = 16;
/** Rows of a product from which on wide register tiles may win. */
const WIDE_ROWS = 128;
/** Workgroups of 64 x 64 below which a GPU is better filled by tiles of 32 x 32, and of those by split sums. */
const FEW_TILES = 64;

/** Tile of one invocation in the register kernels. */
interface RegisterTile {
  readonly rows: number;
  readonly columns: number;
}

function registersVariant(
  name: string,
  broadcasts: boolean,
  tileOf: (problem: GemmProblem) => RegisterTile,
  leastRows = 1,
): GemmVariant & { tileOf(problem: GemmProblem): RegisterTile } {
  return {
    name,
    schedule: "cpu",
    tileOf,
    supports: ({ m }, { features }) =>
      m >= leastRows && (!broadcasts || hasSubgroupsOf(GEMM_LANES, features)),
    normalizes: (problem) => broadcasts && sparesNorm(problem, tileOf(problem)),
    plan(problem) {
      const { m, n, k, layout, epilogue, batch, format, norm } = problem;
      const { rows, columns } = tileOf(problem);
      return {
        kernel: gemmRegistersKernel({
          layout,
          rows,
          columns,
          isVectorK: k % 4 === 0,
          isVectorN: n % 4 === 0,
          isBatched: batch !== undefined,
          broadcasts,
          ...(format && { scaleRun: BLOCK_FORMATS[format].scaleRun }),
          ...(norm && { norm }),
          epilogue,
        }),
        workgroups: batch
          ? [Math.ceil(n / (GEMM_LANES * columns)), Math.ceil(m / rows), batch.count]
          : bandedGrid(problem, rows, GEMM_LANES * columns),
      };
    },
  };
}

// Larger tiles load less per product, but leave more lanes idle at the edges and take longer to compile.
const REGISTERS = registersVariant("registers", false, ({ m, n, k }) => {
  if (m <= FEW_ROWS) return { rows: m, columns: 4 };
  if (m <= 8) return { rows: 8, columns: 8 };
  return m >= 128 && n >= 512 && k >= 256 ? { rows: 16, columns: 16 } : { rows: 16, columns: 8 };
});

// With broadcasts rows cost an eighth of a load each, so that tiles are tall.
const BROADCAST = registersVariant("broadcast", true, (problem) => {
  const { m } = problem;
  if (m <= FEW_ROWS) return { rows: m, columns: 4 };
  if (m <= LOW_ROWS) return { rows: m <= 8 ? 8 : 16, columns: 8 };
  return bestTile(problem, [64, 48, 32, 24], 4);
});

// Half as tall and twice as wide: as many products, half as many broadcasts.
const BROADCAST_8 = registersVariant(
  "broadcast8",
  true,
  (problem) => bestTile(problem, [32, 24, 16], 8),
  LOW_ROWS + 1,
);

/** Elements of b that a band holds: its bytes are as many as a core's own cache has. */
const BAND_ELEMENTS = 2 ** 18;
/** Workgroups along a band: fewer would read a too often. */
const MIN_BAND = 4;
/** What it costs to broadcast a row of a, and to load a column of b, in products of a row with a column. */
const ROW_COST = 3;
const COLUMN_COST = 14;

/** The grid of a register kernel: workgroups along a band of columns, rows, bands; bands are as even as can be. */
function bandedGrid(
  { m, n, k }: GemmProblem,
  rows: number,
  columns: number,
): [number, number, number] {
  const tiles = Math.ceil(n / columns);
  const bands = Math.ceil(tiles / Math.max(MIN_BAND, Math.floor(BAND_ELEMENTS / (columns * k))));
  const band = Math.ceil(tiles / bands);
  return [band, Math.ceil(m / rows), Math.ceil(tiles / band)];
}

/** The tile of given width that takes the least time; tall ones load less, but the last ones should be full. */
function bestTile(problem: GemmProblem, heights: readonly number[], columns: number): RegisterTile {
  return heights.map((rows) => ({ rows, columns }))
    .reduce((best, tile) => tileCost(problem, tile) < tileCost(problem, best) ? tile : best);
}

/** Time of all tiles of a broadcasting kernel, in products of a row with a column. */
function tileCost({ m, n }: GemmProblem, { rows, columns }: RegisterTile): number {
  const tiles = Math.ceil(m / rows) * Math.ceil(n / (GEMM_LANES * columns));
  return tiles * (rows * columns + ROW_COST * rows + COLUMN_COST * columns);
}

const ROWS: GemmVariant = {
  name: "rows",
  schedule: "gpu",
  supports: ({ m, n, layout, batch }) =>
    (m <= FEW_ROWS || n <= FEW_COLUMNS) && layout === "nk" && batch === undefined,
  plan({ m, n, k, epilogue }) {
    const rows = m === 1 ? 1 : FEW_ROWS;
    return {
      kernel: gemmRowsKernel({ rows, isVectorK: k % 4 === 0, epilogue }),
      workgroups: [Math.ceil(n / GEMM_ROWS_COLUMNS), Math.ceil(m / rows), 1],
    };
  },
};

function sharedVariant(name: string, side: 4 | 8): GemmVariant {
  const tile = 8 * side;
  return {
    name,
    schedule: "gpu",
    supports: (_, { limits }) =>
      limits.maxWorkgroupMemoryBytes >= 1280 * side && limits.maxWorkgroupInvocations >= 64,
    plan({ m, n, k, layout, epilogue, batch }) {
      return {
        kernel: gemmSharedKernel({
          layout,
          side,
          isVectorK: k % 4 === 0,
          isBatched: batch !== undefined,
          epilogue,
        }),
        workgroups: [Math.ceil(n / tile), Math.ceil(m / tile), batch?.count ?? 1],
      };
    },
  };
}

const SHARED_64 = sharedVariant("shared64", 8);
const SHARED_32 = sharedVariant("shared32", 4);

const MATRIX_128 = matrixVariant("matrix128", 128, 64);
const MATRIX_64 = matrixVariant("matrix64", 64, 64);
const MATRIX_32 = matrixVariant("matrix32", 32, 32);

const INT8: GemmVariant = {
  name: "int8",
  schedule: "gpu",
  supports: ({ format }, { operands, limits }) =>
    operands === "int8" && format !== undefined && BLOCK_FORMATS[format].isInt8 === true &&
    limits.maxWorkgroupMemoryBytes >= GEMM_INT8_BYTES && limits.maxWorkgroupInvocations >= 64,
  prepare({ m, k }, a) {
    const y = a.graph.tensor("int8", [m, 4 * ROW_HEADER + k / 4], "u32");
    a.graph.dispatch({
      kernel: QUANTIZE_ROWS,
      buffers: { x: a, y },
      params: { k },
      workgroups: [m, 1, 1],
    });
    return y;
  },
  plan({ m, n, epilogue }) {
    return {
      kernel: gemmInt8Kernel(epilogue),
      workgroups: [Math.ceil(n / GEMM_INT8_TILE), Math.ceil(m / GEMM_INT8_TILE), 1],
    };
  },
};

/** Names of the variants of `linear` and `matmul` on operands of 16 bits and more; `matmul` has all but `rows`. */
export const GEMM_VARIANTS: readonly string[] = [
  BROADCAST,
  BROADCAST_8,
  REGISTERS,
  ROWS,
  MATRIX_128,
  MATRIX_64,
  MATRIX_32,
  SHARED_64,
  SHARED_32,
].map(({ name }) => name);

/**
 * Dispatches a product with the kernel that suits the target.
 *
 * @param norm of the rows of a, before the product: by the kernel itself, or by one before it
 */
export function dispatchGemm(
  op: string,
  problem: GemmProblem,
  buffers: Readonly<Record<string, Tensor>> & { readonly y: Tensor },
  params: Readonly<Record<string, number>>,
  norm?: LayerNormOptions,
): void {
  const { graph } = buffers.y;
  const { m, n, k, batch, layout } = problem;
  const sizes = { rows: m, columns: n };
  const problemClass = op === "linear"
    ? linearClass({ ...sizes, weight: buffers["b"]!.dtype })
    : matmulClass({ ...sizes, layout, count: batch?.count ?? 1 });
  const variant = chooseVariant(op, byPreference(problem), problem, graph.target, problemClass);
  const own = norm && variant.normalizes?.(problem) ? normOperands(norm, k, buffers) : undefined;
  const input = norm && !own ? layerNorm(buffers["a"]!, norm) : buffers["a"]!;
  const a = variant.prepare?.(problem, input) ?? input;
  const { kernel, workgroups } = variant.plan(
    own ? { ...problem, norm: own.norm } : problem,
    graph.target,
  );
  graph.dispatch({
    kernel,
    buffers: { ...buffers, ...own?.buffers, a },
    params: {
      m,
      n,
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
      ...params,
    },
    workgroups,
    flops: 2 * m * n * (k * (batch?.count ?? 1) + (params["rank"] ?? 0)),
  });
}

function byPreference(problem: GemmProblem): readonly GemmVariant[] {
  const { m, n, batch } = problem;
  const tiles = (side: number) => Math.ceil(m / side) * Math.ceil(n / side) * (batch?.count ?? 1);
  const isFew = tiles(64) < FEW_TILES;
  const shared = isFew ? [SHARED_32, SHARED_64] : [SHARED_64, SHARED_32];
  // Tiles of 128 x 64 are half as many.
  const matrix = isFew
    ? [MATRIX_32, MATRIX_64, MATRIX_128]
    : tiles(64) < 2 * FEW_TILES
    ? [MATRIX_64, MATRIX_32, MATRIX_128]
    : [MATRIX_128, MATRIX_64, MATRIX_32];
  const tiled = [...matrix, ...shared];
  const gpu = m <= FEW_ROWS || tiles(32) < FEW_TILES ? [ROWS, ...tiled] : [...tiled, ROWS];
  const broadcast = suitsWideTiles(problem) ? [BROADCAST_8, BROADCAST] : [BROADCAST, BROADCAST_8];
  return [...broadcast, REGISTERS, ...gpu, INT8];
}

/** In layout `kn` every row of b lies in a page of its own: wide tiles go to fewer of them. */
function suitsWideTiles(problem: GemmProblem): boolean {
  if (problem.layout === "nk" || problem.m < WIDE_ROWS) return false;
  return tileCost(problem, BROADCAST_8.tileOf(problem)) <
    tileCost(problem, BROADCAST.tileOf(problem));
}
