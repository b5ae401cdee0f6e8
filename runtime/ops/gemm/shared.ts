/** Matrix products on the plain arithmetic of GPUs. */
import rowsSource from "../../shaders/gemm/rows.wgsl" with { type: "text" };
import sharedSource from "../../shaders/gemm/shared.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import { epilogueParams } from "./epilogue.ts";
import type { GemmVariant } from "./problem.ts";

const ROWS_FILE = new KernelFile("gemm/rows", rowsSource);
const SHARED_FILE = new KernelFile("gemm/shared", sharedSource);

/** Rows of a product that `rows` takes, or columns, as of the inner factor of a low-rank branch. */
export const FEW_ROWS = 4;
const FEW_COLUMNS = 128;
/** Columns per workgroup of `rows`. */
const ROWS_COLUMNS = 8;

/** A few rows or columns: the sum is split over invocations. */
export const ROWS: GemmVariant = {
  name: "rows",
  schedule: "gpu",
  supports: ({ m, n, layout, batch }) =>
    (m <= FEW_ROWS || n <= FEW_COLUMNS) && layout === "nk" && batch === undefined,
  plan({ m, n, k, epilogue }) {
    const rows = m === 1 ? 1 : FEW_ROWS;
    return {
      kernel: ROWS_FILE.kernel({ ROWS: rows, VECTOR_K: k % 4 === 0, ...epilogueParams(epilogue) }),
      workgroups: [Math.ceil(n / ROWS_COLUMNS), Math.ceil(m / rows), 1],
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
        kernel: SHARED_FILE.kernel({
          LAYOUT: layout,
          SIDE: side,
          VECTOR_K: k % 4 === 0,
          BATCHED: batch !== undefined,
          ...epilogueParams(epilogue),
        }),
        workgroups: [Math.ceil(n / tile), Math.ceil(m / tile), batch?.count ?? 1],
      };
    },
  };
}

/** Tiles of 64 x 64 in workgroup memory. */
export const SHARED_64 = sharedVariant("shared64", 8);
/** Tiles of 32 x 32. */
export const SHARED_32 = sharedVariant("shared32", 4);
