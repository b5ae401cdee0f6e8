import type { Kernel } from "./assemble.ts";
import {
  epilogueBuffers,
  epilogueName,
  epilogueParams,
  epilogueWgsl,
  type GemmEpilogue,
} from "./gemm_epilogue.ts";
import { lowRankWalk } from "./gemm_low_rank.ts";
import { gemmParams, rowLoader } from "./gemm_operands.ts";

/** What a product of a few rows is specialised to. */
export interface GemmRowsSpec {
  /** Rows that a workgroup makes; those past the end are computed on the last one and not stored. */
  readonly rows: 1 | 4;
  /** k is a multiple of 4. */
  readonly isVectorK: boolean;
  readonly epilogue: GemmEpilogue;
}

/** Columns per workgroup. */
export const GEMM_ROWS_COLUMNS = 8;
/** Invocations that share one column, each with every 8th `vec4` along k. */
const SLICES = 8;

/**
 * y = epilogue(a · bᵀ) for GPUs and a few rows, where reading b is all the work, or few columns, where tiles would
 * leave most of the adapter idle: k is split over invocations.
 *
 * a: [m, k], b: [n, k], y: [m, n]. Workgroup: 8 (slices of k) x 8 (columns) x 1, grid: n / 8, m / rows.
 * Workgroup memory: 256 * rows bytes.
 */
export function gemmRowsKernel(spec: GemmRowsSpec): Kernel {
  const { rows, isVectorK, epilogue } = spec;
  const width = isVectorK ? 4 : 1;
  const each = (line: (i: number) => string) =>
    Array.from({ length: rows }, (_, i) => line(i)).join("\n");
  const walk = (a: string, b: string) =>
    `  let w_start = min(n0 + local.y, params.n - 1u) * row_words;
${each((r) => `  let ${a}${r} = min(m0 + ${r}u, params.m - 1u) * row_words;`)}
  for (var k = local.x; k < steps; k = k + ${SLICES}u) {
    let w = ${b}_four(w_start, k);
${each((r) => `    s${r} = s${r} + dot(${a}_four(${a}${r}, k), w);`)}
  }`;
  const threads = SLICES * GEMM_ROWS_COLUMNS;
  const slices = Array.from({ length: SLICES }, (_, i) => `partial[thread * ${SLICES}u + ${i}u]`)
    .join(" + ");
  return {
    name: `gemm rows ${rows}${isVectorK ? "" : " odd k"}${epilogueName(epilogue)}`,
    buffers: [
      { name: "a", access: "read", width },
      { name: "b", access: "read", width },
      ...epilogueBuffers(epilogue, 1),
    ],
    params: { ...gemmParams(false), ...epilogueParams(epilogue) },
    workgroupSize: [SLICES, GEMM_ROWS_COLUMNS, 1],
    body: `${rowLoader("a", isVectorK)}
${rowLoader("b", isVectorK)}
${epilogueWgsl(epilogue, 1)}
var<workgroup> partial: array<f32, ${rows * threads}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * ${SLICES}u + local.x;
  let n0 = wg.x * ${GEMM_ROWS_COLUMNS}u;
  let m0 = wg.y * ${rows}u;
  let row_words = params.k${isVectorK ? " / 4u" : ""};
  let steps = (params.k + 3u) / 4u;
${each((r) => `  var s${r} = 0.0;`)}
${walk("a", "b")}
${lowRankWalk(epilogue.lowRank, walk)}
${each((r) => `  partial[${r * threads}u + thread] = s${r};`)}
  workgroupBarrier();
  let row = m0 + thread / ${GEMM_ROWS_COLUMNS}u;
  let column = n0 + thread % ${GEMM_ROWS_COLUMNS}u;
  if (thread < ${rows * GEMM_ROWS_COLUMNS}u && row < params.m && column < params.n) {
    finish(row, column, ${slices});
  }
}`,
  };
}
