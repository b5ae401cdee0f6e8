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
import { gemmParams, sliceLoader } from "./gemm_operands.ts";
import { ROW_HEADER } from "./quantize_rows.ts";

/** Invocations along each side of a workgroup. */
const THREADS = 8;
/** Rows and columns of the result per invocation. */
const SIDE = 8;
/** Rows and columns of the result per workgroup. */
export const GEMM_INT8_TILE = THREADS * SIDE;
/** 16-byte words along k in a tile; two of them have one scale of b. */
const DEPTH = 4;
/** Words from one row of a tile to the next: odd, so that neighbouring rows lie in different banks. */
const STRIDE = DEPTH + 1;
const SCALES = DEPTH / 2;

/** Memory that a workgroup shares. */
export const GEMM_INT8_BYTES = GEMM_INT8_TILE * (2 * STRIDE * 16 + SCALES * 4);

/**
 * y = epilogue(a · bᵀ) for GPUs on operands of 8 bits: tiles of both, 64 deep, in workgroup memory, as
 * `gemm_shared.ts` has them. Products of 16 elements are exact, sums are f32.
 *
 * a: rows as `quantize_rows.ts` writes them, b: [n, k] in a format of int8 blocks, k a multiple of 32, y: [m, n].
 * Workgroup: 8 x 8 x 1, grid: n / 64, m / 64.
 */
export function gemmInt8Kernel(epilogue: GemmEpilogue): Kernel {
  const { lowRank } = epilogue;
  /** `word(row, k)`: word k of a row. */
  const tile = (name: "a" | "b", word: (row: string, k: string) => string) =>
    each(GEMM_INT8_TILE * DEPTH / (THREADS * THREADS), (i) => {
      const row = `(thread / ${DEPTH}u + ${i * THREADS * THREADS / DEPTH}u)`;
      const k = `thread % ${DEPTH}u`;
      return `    tile_${name}[${row} * ${STRIDE}u + ${k}] = ${word(row, `k0 + ${k}`)};`;
    });
  const scales = each(GEMM_INT8_TILE * SCALES / (THREADS * THREADS), (i) => {
    const item = `(thread + ${i * THREADS * THREADS}u)`;
    return `    tile_scale[${item}] = b_scale(4u * (min(n0 + ${item} / ${SCALES}u, params.n - 1u) * steps + min(k0 + ${item} % ${SCALES}u * 2u, steps - 1u))).x;`;
  });
  /** `product(x, w, scale)` of words in the tiles. */
  const products = (product: (x: string, w: string, scale: string, sum: string) => string) =>
    each(DEPTH, (k) =>
      [
        each(SIDE, (c) => {
          const column = `(local.x + ${c * THREADS}u)`;
          return `    let w${k}_${c} = tile_b[${column} * ${STRIDE}u + ${k}u];`;
        }),
        each(SIDE, (r) =>
          [
            `    let x${k}_${r} = tile_a[(local.y + ${r * THREADS}u) * ${STRIDE}u + ${k}u];`,
            each(SIDE, (c) =>
              `    s${r}_${c} = ${
                product(`x${k}_${r}`, `w${k}_${c}`, `q${Math.floor(k / 2)}_${c}`, `s${r}_${c}`)
              };`),
          ].join("\n")),
      ].join("\n"));
  const walk = (tiles: string, sums: string) =>
    `  for (var k0 = 0u; k0 < steps; k0 = k0 + ${DEPTH}u) {
${tiles}
    workgroupBarrier();
${sums}
    workgroupBarrier();
  }`;
  const columnScales = each(
    SCALES,
    (half) =>
      each(
        SIDE,
        (c) =>
          `    let q${half}_${c} = tile_scale[(local.x + ${
            c * THREADS
          }u) * ${SCALES}u + ${half}u];`,
      ),
  );
  const main = walk(
    [
      tile("a", (row, k) => `a_word16(min(m0 + ${row}, params.m - 1u), ${k})`),
      tile(
        "b",
        (row, k) => `b_int8(min(n0 + ${row}, params.n - 1u) * steps + min(${k}, steps - 1u))`,
      ),
      scales,
    ].join("\n"),
    [
      columnScales,
      products((x, w, scale, sum) => `fma(dot16(${x}, ${w}), ${scale}, ${sum})`),
    ].join("\n"),
  );
  const slice = (name: string, first: string, size: string) => (row: string, k: string) =>
    `bitcast<vec4<u32>>(${name}_slice(min(${first} + ${row}, ${size} - 1u) * row_words, ${k}))`;
  const branch = lowRankWalk(lowRank, (t, up) =>
    walk(
      [
        tile("a", slice(t, "m0", "params.m")),
        tile("b", slice(up, "n0", "params.n")),
      ].join("\n"),
      products((x, w, _, sum) =>
        `${sum} + dot(bitcast<vec4<f32>>(${x}), bitcast<vec4<f32>>(${w}))`
      ),
    ));
  const rowScales = each(SIDE, (r) =>
    [
      `  let d${r} = bitcast<f32>(a_at(min(m0 + local.y + ${
        r * THREADS
      }u, params.m - 1u) * (steps + ${ROW_HEADER}u)).x);`,
      each(SIDE, (c) => `  s${r}_${c} = s${r}_${c} * d${r};`),
    ].join("\n"));
  const stores = each(SIDE, (r) => {
    const row = `m0 + local.y + ${r * THREADS}u`;
    const lines = each(SIDE, (c) => {
      const column = `n0 + local.x + ${c * THREADS}u`;
      return `    if (${column} < params.n) { finish(${row}, ${column}, s${r}_${c}); }`;
    });
    return `  if (${row} < params.m) {\n${lines}\n  }`;
  });
  return {
    name: `gemm int8${epilogueName(epilogue)}`,
    buffers: [
      { name: "a", access: "read", width: 4 },
      { name: "b", access: "read", width: 4 },
      ...epilogueBuffers(epilogue, 1),
    ],
    params: { ...gemmParams(false), ...epilogueParams(epilogue) },
    workgroupSize: [THREADS, THREADS, 1],
    body: `fn dot16(x: vec4<u32>, w: vec4<u32>) -> f32 {
  return f32(dot4I8Packed(x.x, w.x) + dot4I8Packed(x.y, w.y) + dot4I8Packed(x.z, w.z) + dot4I8Packed(x.w, w.w));
}
fn a_word16(row: u32, k: u32) -> vec4<u32> {
  let steps = params.k / 16u;
  let at = row * (steps + ${ROW_HEADER}u) + ${ROW_HEADER}u + min(k, steps - 1u);
  return select(vec4<u32>(), a_at(at), vec4<bool>(k < steps));
}
${epilogueWgsl(epilogue, 1)}
${lowRank ? ["t", "up"].map((name) => sliceLoader(name, "params.rank")).join("\n") : ""}
var<workgroup> tile_a: array<vec4<u32>, ${GEMM_INT8_TILE * STRIDE}>;
var<workgroup> tile_b: array<vec4<u32>, ${GEMM_INT8_TILE * STRIDE}>;
var<workgroup> tile_scale: array<f32, ${GEMM_INT8_TILE * SCALES}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * ${THREADS}u + local.x;
  let n0 = wg.x * ${GEMM_INT8_TILE}u;
  let m0 = wg.y * ${GEMM_INT8_TILE}u;
  let steps = params.k / 16u;
${each(SIDE, (r) => each(SIDE, (c) => `  var s${r}_${c} = 0.0;`))}
${main}
${rowScales}
${branch}
${stores}
}`,
  };
}
