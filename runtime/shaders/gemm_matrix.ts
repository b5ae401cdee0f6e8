import type { Kernel } from "./assemble.ts";
import {
  epilogueBuffers,
  epilogueName,
  epilogueParams,
  epilogueWgsl,
  type GemmEpilogue,
} from "./gemm_epilogue.ts";
import { lowRankWalk } from "./gemm_low_rank.ts";
import { batchWgsl, gemmParams, rowLoader, sliceLoader } from "./gemm_operands.ts";
import {
  MATRIX_DEPTH,
  matrixKernel,
  matrixResultsWgsl,
  matrixRows,
  type MatrixSource,
  matrixSumsWgsl,
  matrixThreads,
  type MatrixTile,
  matrixTileWgsl,
  matrixWalkWgsl,
} from "./matrix_tiles.ts";

/** What a matrix product on matrix units is specialised to. */
export interface GemmMatrixSpec {
  readonly tile: MatrixTile;
  /** Layout of b: rows of k (`nk`, weights), or rows of n (`kn`). */
  readonly layout: "nk" | "kn";
  /** k is a multiple of 4. */
  readonly isVectorK: boolean;
  /** n is a multiple of 4. */
  readonly isVectorN: boolean;
  readonly isBatched: boolean;
  /** b is a quantised weight; layout `nk`. */
  readonly isQuantized: boolean;
  readonly epilogue: GemmEpilogue;
}

/**
 * y = epilogue(a · b) on matrix units: see `matrix_tiles.ts`. Factors are rounded to f16, sums are f32.
 *
 * a: [batch, m, k], b: [batch, n, k] or [batch, k, n], y: [batch, m, n]; epilogue operands only without batches.
 * Workgroup: four subgroups; grid: n / columns, m / rows of the tile, batch. Rows and columns past the end are computed on
 * clamped addresses and not stored.
 */
export function gemmMatrixKernel(spec: GemmMatrixSpec): Kernel {
  const { tile, layout, isVectorK, isVectorN, isBatched, isQuantized, epilogue } = spec;
  const { lowRank } = epilogue;
  const aWidth = isVectorK ? 4 : 1;
  const yWidth = isVectorN ? 4 : 1;
  const bWidth = layout === "nk" ? aWidth : yWidth;
  const rows = (name: "a" | "b", from: string, count: number, first: string, size: string) =>
    matrixRows(
      name,
      count,
      tile.unit,
      (row, k) =>
        `${from}_slice(${from}_start + min(${first} + ${row}, ${size} - 1u) * row_words, ${k})`,
    );
  const walk = (a: "a" | "t", b: "b" | "up") => {
    const second = b === "b" && isQuantized
      ? quantizedRows(tile)
      : b === "b" && layout === "kn"
      ? columns(tile)
      : rows("b", b, tile.columns, "n0", "params.n");
    const own = b === "b" ? layout : "nk";
    return matrixWalkWgsl(tile, own, rows("a", a, tile.rows, "m0", "params.m"), second);
  };
  const store = isVectorN
    ? "    if (m0 + row < params.m && n0 + column < params.n) { finish(y_start + m0 + row, n0 + column, sum); }"
    : `    if (m0 + row < params.m) {
${
      ["x", "y", "z", "w"].map((part, i) =>
        `      if (n0 + column + ${i}u < params.n) { finish(y_start + m0 + row, n0 + column + ${i}u, sum.${part}); }`
      ).join("\n")
    }
    }`;
  return matrixKernel(tile, {
    name: `gemm matrix ${layout}${isVectorK ? "" : " odd k"}${isVectorN ? "" : " odd n"}${
      isBatched ? " batched" : ""
    }${isQuantized ? " blocks" : ""}${epilogueName(epilogue)}`,
    buffers: [
      { name: "a", access: "read", width: aWidth },
      { name: "b", access: "read", width: bWidth },
      ...epilogueBuffers(epilogue, yWidth),
    ],
    params: { ...gemmParams(isBatched), ...epilogueParams(epilogue) },
    body: `${rowLoader("a", isVectorK)}
${sliceLoader("a")}
${
      layout === "kn" ? columnsLoader(isVectorN) : isQuantized ? "" : `${rowLoader("b", isVectorK)}
${sliceLoader("b")}`
    }
${epilogueWgsl(epilogue, yWidth)}
${lowRank ? ["t", "up"].map((name) => sliceLoader(name, "params.rank")).join("\n") : ""}
${matrixTileWgsl(tile, layout)}
fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let n0 = wg.x * ${tile.columns}u;
  let m0 = wg.y * ${tile.rows}u;
${batchWgsl(isBatched, aWidth, bWidth)}
  let y_start = wg.z * params.m;
  let row_words = params.k${isVectorK ? " / 4u" : ""};
  let steps = (params.k + 3u) / 4u;
${matrixSumsWgsl(tile)}
${walk("a", "b")}
${lowRankWalk(lowRank, walk)}
${matrixResultsWgsl(tile, store)}
}`,
  });
}

/** Blocks lie along the sum: an invocation brings neighbours, up to four, which have one scale. */
function quantizedRows(tile: MatrixTile): MatrixSource {
  const threads = matrixThreads(tile.unit);
  const count = tile.columns * MATRIX_DEPTH / threads;
  const run = Math.min(4, count);
  const perRow = MATRIX_DEPTH / run;
  const group = (i: number) => `(thread + ${Math.floor(i / run) * threads}u)`;
  const word = (i: number) => `${group(i)} % ${perRow}u * ${run}u + ${i % run}u`;
  return {
    name: "b",
    count,
    place: (i) => ({ row: `(${group(i)} / ${perRow}u)`, word: word(i) }),
    fetch: (k) => {
      const lines: string[] = [];
      for (let i = 0; i < count; i++) {
        if (i % run === 0) {
          lines.push(
            `    let start${i} = b_start + min(n0 + ${
              group(i)
            } / ${perRow}u, params.n - 1u) * row_words;`,
            `    let scale${i} = b_scale(start${i} + min(${k} + ${word(i)}, steps - 1u));`,
          );
        }
        const first = i - i % run;
        lines.push(
          `    b_next${i} = select(vec4<f32>(), b_scaled(start${first} + min(${k} + ${
            word(i)
          }, steps - 1u), scale${first}), vec4<bool>(${k} + ${word(i)} < steps));`,
        );
      }
      return lines.join("\n");
    },
  };
}

/** Rows of n: an invocation brings four columns of one step of the sum. */
function columns(tile: MatrixTile): MatrixSource {
  const threads = matrixThreads(tile.unit);
  const words = tile.columns / 4;
  const count = 4 * MATRIX_DEPTH * words / threads;
  const item = (i: number) => `(thread + ${i * threads}u)`;
  return {
    name: "b",
    count,
    place: (i) => ({ row: `(${item(i)} / ${words}u)`, word: `${item(i)} % ${words}u` }),
    fetch: (k) =>
      Array.from(
        { length: count },
        (_, i) =>
          `    b_next${i} = b_columns(b_start, 4u * ${k} + ${item(i)} / ${words}u, n0 + ${
            item(i)
          } % ${words}u * 4u);`,
      ).join("\n"),
  };
}

/** `b_columns(start, row, column)`: row `row` of b, columns `column` … `column` + 3; zeros below its last row. */
function columnsLoader(isVectorN: boolean): string {
  const row = "min(row, params.k - 1u) * params.n";
  const load = isVectorN
    ? `b_at(start + (${row} + min(column, params.n - 4u)) / 4u)`
    : `vec4<f32>(${
      [0, 1, 2, 3].map((c) => `b_at(start + ${row} + min(column + ${c}u, params.n - 1u))`).join(
        ", ",
      )
    })`;
  return `fn b_columns(start: u32, row: u32, column: u32) -> vec4<f32> {
  return select(vec4<f32>(), ${load}, vec4<bool>(row < params.k));
}`;
}
