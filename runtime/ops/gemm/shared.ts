/** Matrix products on the plain arithmetic of GPUs. */
import rowsSource from "../../shaders/gemm/rows.wgsl" with { type: "text" };
import sharedSource from "../../shaders/gemm/shared.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { MatrixElement } from "../matrix_unit.ts";
import { epilogueParams } from "./epilogue.ts";
import { maySumInHalf } from "../variants.ts";
import type { GemmProblem, GemmVariant } from "./problem.ts";

const ROWS_FILE = new KernelFile("gemm/rows", rowsSource);
const SHARED_FILE = new KernelFile("gemm/shared", sharedSource);

/** Rows of a product that `rows` takes, or columns, as of the inner factor of a low-rank branch. */
export const FEW_ROWS = 4;
const FEW_COLUMNS = 128;
/** Rows up to which a product is that of a short prompt: it has few tiles, however wide it is. */
export const SHORT_ROWS = 64;
/** Elements of a sum that may be worth slicing. */
const SLICED_SUM = 256;
/** Columns per workgroup of `rows`. */
const ROWS_COLUMNS = 8;

/** A few rows or columns: the sum is split over invocations. */
export const ROWS: GemmVariant = {
  name: "rows",
  schedule: "gpu",
  supports: ({ m, n, layout, batch, epilogue }) =>
    (m <= FEW_ROWS || n <= FEW_COLUMNS) && layout === "nk" && batch === undefined && !epilogue.glu,
  plan({ m, n, k, epilogue }) {
    const rows = m === 1 ? 1 : FEW_ROWS;
    return {
      kernel: ROWS_FILE.kernel({ ROWS: rows, VECTOR_K: k % 4 === 0, ...epilogueParams(epilogue) }),
      workgroups: [Math.ceil(n / ROWS_COLUMNS), Math.ceil(m / rows), 1],
    };
  },
};

/** Tile of a workgroup of `shared.wgsl`. */
interface SharedTile {
  /** Invocations along each side. */
  readonly threads: 8 | 16;
  /** Rows and columns of the result per invocation. */
  readonly rows: 4 | 8;
  readonly columns: 4 | 8;
  /** Parts of the sum, each with invocations of its own. */
  readonly slices?: number;
  /** Type of the factors in workgroup memory; f32 by default. */
  readonly element?: MatrixElement;
}

function sharedVariant(
  name: string,
  { threads, rows, columns, slices = 1, element = "f32" }: SharedTile,
  suits: (problem: GemmProblem) => boolean = () => true,
): GemmVariant {
  const tile = { rows: threads * rows, columns: threads * columns };
  const depth = element === "f16" ? 32 : 16;
  return {
    name,
    schedule: "gpu",
    supports: (problem, target) =>
      (element === "f32" ||
        (target.features.f16 && problem.mayRound && maySumInHalf(name, target))) &&
      target.limits.maxWorkgroupMemoryBytes >= 64 * slices * (tile.rows + tile.columns) &&
      target.limits.maxWorkgroupInvocations >= threads * threads * slices && suits(problem),
    plan({ m, n, k, layout, epilogue, batch, format }) {
      return {
        kernel: SHARED_FILE.kernel({
          LAYOUT: layout,
          THREADS: threads,
          ROWS: rows,
          COLUMNS: columns,
          SLICES: slices,
          ELEMENT: element,
          VECTOR_K: k % 4 === 0,
          WHOLE_K: k % (depth * slices) === 0,
          BATCHED: batch !== undefined,
          QUANTIZED: format !== undefined,
          ...epilogueParams(epilogue),
        }),
        workgroups: [Math.ceil(n / tile.columns), Math.ceil(m / tile.rows), batch?.count ?? 1],
      };
    },
  };
}

/** Whether a tile would not be mostly idle. */
function fills(rows: number, columns: number): (problem: GemmProblem) => boolean {
  return ({ m, n }) => m > rows / 2 && n > columns / 2;
}

/** Tiles of 128 x 128 in workgroup memory. */
export const SHARED_128 = sharedVariant(
  "shared128",
  { threads: 16, rows: 8, columns: 8 },
  fills(128, 128),
);
/** Tiles of 128 x 64. */
export const SHARED_128X64 = sharedVariant(
  "shared128x64",
  { threads: 16, rows: 8, columns: 4 },
  fills(128, 64),
);
/** Tiles of 64 x 64. */
export const SHARED_64 = sharedVariant("shared64", { threads: 8, rows: 8, columns: 8 });
/**
 * Tiles of 128 x 64, rounded to f16 as are sums of 16 products: faster than f32 where the GPU adds f16 in pairs. Wider ones
 * would spill.
 */
export const HALF_128X64 = sharedVariant(
  "half128x64",
  { threads: 16, rows: 8, columns: 4, element: "f16" },
  fills(128, 64),
);
/** Tiles of 32 x 32. */
export const SHARED_32 = sharedVariant("shared32", { threads: 8, rows: 4, columns: 4 });
/** Tiles of 32 x 32 whose sums four groups of invocations share: for short prompts, whose tiles do not fill a GPU. */
export const SLICED_32 = sharedVariant(
  "sliced32",
  { threads: 8, rows: 4, columns: 4, slices: 4 },
  isShort,
);
/** The same with tiles of 64 x 32, which read workgroup memory three quarters as often. */
export const SLICED_64X32 = sharedVariant(
  "sliced64x32",
  { threads: 8, rows: 8, columns: 4, slices: 4 },
  (problem) => isShort(problem) && problem.m > 32,
);

function isShort({ m, k }: GemmProblem): boolean {
  return m <= SHORT_ROWS && k >= SLICED_SUM;
}
