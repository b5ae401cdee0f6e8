import type { Kernel } from "./assemble.ts";
import { each } from "./each.ts";
import {
  epilogueBuffers,
  epilogueName,
  epilogueParams,
  epilogueWgsl,
  type GemmEpilogue,
} from "./gemm_epilogue.ts";
import { lowRankWalk } from "./gemm_low_rank.ts";
import { batchWgsl, gemmParams, rowLoader, sliceLoader } from "./gemm_operands.ts";

/** What a shared-memory matrix product is specialised to. */
export interface GemmSharedSpec {
  /** Layout of b: rows of k (`nk`, weights), or rows of n (`kn`). */
  readonly layout: "nk" | "kn";
  /** Rows and columns of the result per invocation; a workgroup makes 8 times as many of each. */
  readonly side: 4 | 8;
  /** k is a multiple of 4. */
  readonly isVectorK: boolean;
  readonly isBatched: boolean;
  readonly epilogue: GemmEpilogue;
}

/** Invocations along each side of a workgroup. */
const THREADS = 8;
/** `vec4`s along k in a tile. */
const DEPTH = 4;
/** `vec4`s from one row of a tile to the next: odd, so that neighbouring rows lie in different banks. */
const STRIDE = DEPTH + 1;

/**
 * y = epilogue(a · b) for GPUs: tiles of a and b, 16 deep, in workgroup memory.
 *
 * a: [batch, m, k], b: [batch, n, k] or [batch, k, n], y: [batch, m, n]; epilogue operands only without batches.
 * Workgroup: 8 x 8 x 1, grid: n / (8 * side), m / (8 * side), batch. Workgroup memory: 1280 * side bytes.
 */
export function gemmSharedKernel(spec: GemmSharedSpec): Kernel {
  const { layout, side, isVectorK, isBatched, epilogue } = spec;
  const tile = side * THREADS;
  const aWidth = isVectorK ? 4 : 1;
  const bWidth = layout === "nk" ? aWidth : 1;
  const loadsPerThread = tile * DEPTH / (THREADS * THREADS);
  const rowTile = (name: string, tileName: "a" | "b", first: string, size: string) =>
    each(loadsPerThread, (i) => {
      const row = `(thread / ${DEPTH}u + ${i * THREADS * THREADS / DEPTH}u)`;
      const start = `${name}_start + min(${first} + ${row}, ${size} - 1u) * row_words`;
      return `    tile_${tileName}[${row} * ${STRIDE}u + thread % ${DEPTH}u] = ${name}_slice(${start}, k0 + thread % ${DEPTH}u);`;
    });
  const columnTile = each(loadsPerThread, (i) => {
    const item = `(thread + ${i * THREADS * THREADS}u)`;
    const column = `${item} % ${tile}u`;
    return `    tile_b[(${column}) * ${STRIDE}u + ${item} / ${tile}u] = b_slice(b_start + min(n0 + ${column}, params.n - 1u), k0 + ${item} / ${tile}u);`;
  });
  const products = each(DEPTH, (k) =>
    [
      each(side, (c) =>
        `    let w${k}_${c} = tile_b[(local.x + ${c * THREADS}u) * ${STRIDE}u + ${k}u];`),
      each(side, (r) =>
        [
          `    let x${k}_${r} = tile_a[(local.y + ${r * THREADS}u) * ${STRIDE}u + ${k}u];`,
          each(side, (c) =>
            `    s${r}_${c} = s${r}_${c} + dot(x${k}_${r}, w${k}_${c});`),
        ].join("\n")),
    ].join("\n"));
  const walk = (a: string, b: string) =>
    `  for (var k0 = 0u; k0 < steps; k0 = k0 + ${DEPTH}u) {
${rowTile(a, "a", "m0", "params.m")}
${layout === "nk" ? rowTile(b, "b", "n0", "params.n") : columnTile}
    workgroupBarrier();
${products}
    workgroupBarrier();
  }`;
  const stores = each(side, (r) => {
    const row = `m0 + local.y + ${r * THREADS}u`;
    const lines = each(side, (c) => {
      const column = `n0 + local.x + ${c * THREADS}u`;
      return `    if (${column} < params.n) { finish(y_start + ${row}, ${column}, s${r}_${c}); }`;
    });
    return `  if (${row} < params.m) {\n${lines}\n  }`;
  });
  return {
    name: `gemm shared ${layout} ${tile}x${tile}${isVectorK ? "" : " odd k"}${
      isBatched ? " batched" : ""
    }${epilogueName(epilogue)}`,
    buffers: [
      { name: "a", access: "read", width: aWidth },
      { name: "b", access: "read", width: bWidth },
      ...epilogueBuffers(epilogue, 1),
    ],
    params: { ...gemmParams(isBatched), ...epilogueParams(epilogue) },
    workgroupSize: [THREADS, THREADS, 1],
    body: `${rowLoader("a", isVectorK)}
${layout === "nk" ? rowLoader("b", isVectorK) : COLUMN_LOADER}
${sliceLoader("a")}
${sliceLoader("b")}
${epilogue.lowRank ? ["t", "up"].map((name) => sliceLoader(name, "params.rank")).join("\n") : ""}
${epilogueWgsl(epilogue, 1)}
var<workgroup> tile_a: array<vec4<f32>, ${tile * STRIDE}>;
var<workgroup> tile_b: array<vec4<f32>, ${tile * STRIDE}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * ${THREADS}u + local.x;
  let n0 = wg.x * ${tile}u;
  let m0 = wg.y * ${tile}u;
${batchWgsl(isBatched, aWidth, bWidth)}
  let y_start = wg.z * params.m;
  let row_words = params.k${isVectorK ? " / 4u" : ""};
  let steps = (params.k + 3u) / 4u;
${each(side, (r) => each(side, (c) => `  var s${r}_${c} = 0.0;`))}
${walk("a", "b")}
${lowRankWalk(epilogue.lowRank, walk)}
${stores}
}`,
  };
}

/** `b_four(start, k)`: elements 4k … 4k+3 of the column at `start`, zeros past its end. */
const COLUMN_LOADER = `fn b_four(start: u32, k: u32) -> vec4<f32> {
  return vec4<f32>(${
  [0, 1, 2, 3].map((i) =>
    `select(0.0, b_at(start + min(4u * k + ${i}u, params.k - 1u) * params.n), 4u * k + ${i}u < params.k)`
  ).join(", ")
});
}`;
