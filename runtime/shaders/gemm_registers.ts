import { type BlockFormat, RUN_ACCESSES, runAccessWgsl } from "../quantization/block_format.ts";
import type { Kernel } from "./assemble.ts";
import {
  epilogueBuffers,
  epilogueName,
  epilogueParams,
  epilogueWgsl,
  type GemmEpilogue,
} from "./gemm_epilogue.ts";
import { lowRankWalk } from "./gemm_low_rank.ts";
import {
  type GemmNorm,
  normBuffers,
  normFinish,
  normName,
  normParams,
  normStart,
  normStep,
} from "./gemm_norm.ts";
import { batchWgsl, gemmParams, rowLoader } from "./gemm_operands.ts";

/** What a register-tiled matrix product is specialised to. */
export interface GemmRegistersSpec {
  /** Layout of b: rows of k (`nk`, weights), or rows of n (`kn`). */
  readonly layout: "nk" | "kn";
  /** Rows of the result per invocation. */
  readonly rows: number;
  /** Columns of the result per invocation, a multiple of 4. */
  readonly columns: number;
  /** k is a multiple of 4. */
  readonly isVectorK: boolean;
  /** n is a multiple of 4. */
  readonly isVectorN: boolean;
  readonly isBatched: boolean;
  /**
   * Lanes load one row of a each and broadcast it: needs subgroups of exactly 8. Software adapters pay per load
   * whatever it loads, so this halves the time.
   */
  readonly broadcasts: boolean;
  /** b is a quantised weight whose scales hold for this many `vec4`s; layout `nk`, k whole runs. */
  readonly scaleRun?: BlockFormat["scaleRun"];
  /** Needs `broadcasts` and k a multiple of 4; no batches. */
  readonly norm?: GemmNorm;
  readonly epilogue: GemmEpilogue;
}

/** Invocations per workgroup, side by side along n, so that they read the same elements of a at the same time. */
export const GEMM_LANES = 8;
/** Rows of the largest tile that takes a quantised b by whole runs. */
const RUN_ROWS = 4;

/**
 * y = epilogue(a · b) for software adapters: a tile of named registers per invocation, no workgroup memory.
 *
 * a: [batch, m, k], b: [batch, n, k] or [batch, k, n], y: [batch, m, n]; epilogue operands only without batches.
 * Workgroup: 8 x 1 x 1, grid: n / (8 * columns), m / rows, batch; without batches the columns are cut into bands of
 * `band` workgroups, one after the other along z, so that a band of b stays in the cache while all of a passes by.
 * Rows and columns past the end are computed on clamped addresses and not stored.
 */
export function gemmRegistersKernel(spec: GemmRegistersSpec): Kernel {
  const { layout, rows, columns, isVectorK, isVectorN, isBatched, broadcasts } = spec;
  const { scaleRun, norm, epilogue } = spec;
  const aWidth = isVectorK ? 4 : 1;
  const bWidth = (layout === "nk" ? isVectorK : isVectorN) ? 4 : 1;
  const yWidth = isVectorN ? 4 : 1;
  const groups = columns / 4;
  const each = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i));
  const rowLoads = Math.ceil(rows / GEMM_LANES);
  const tile = { lanes: GEMM_LANES, rows, groups };
  const rowAddresses = (a: string) =>
    broadcasts
      ? each(
        rowLoads,
        (i) =>
          `  let a${i} = ${a}_start + min(m0 + ${
            i * GEMM_LANES
          }u + local.x, params.m - 1u) * row_words;`,
      )
      : each(rows, (r) => `  let a${r} = ${a}_start + min(m0 + ${r}u, params.m - 1u) * row_words;`);
  const columnAddresses = (b: string) =>
    each(
      columns,
      (c) => `  let b${c} = ${b}_start + min(n0 + ${c}u, params.n - 1u) * row_words;`,
    );
  // Sums that start at the bias spare every row a load of it, and half of the compiler's time with it.
  const startsAtBias = epilogue.bias && !epilogue.scale;
  const starts = startsAtBias
    ? each(groups, (g) => `  let start${g} = ${biasOf(g * 4, isVectorN)};`)
    : [];
  const startOf = (g: number) => (startsAtBias ? `start${g}` : "vec4<f32>()");
  const sums = each(
    rows,
    (r) =>
      each(groups, (g) => `  var s${r}_${g} = ${norm ? "vec4<f32>()" : startOf(g)};`).join("\n"),
  );
  // With few rows the loads are all the work, so that a quantised b is loaded by whole runs.
  const takesRuns = rows <= RUN_ROWS && scaleRun !== undefined && scaleRun !== "row";
  const rowsOfB = () =>
    each(
      groups,
      (g) =>
        each(4, (i) => `    let w${g}_${i} = b_four(b_start, k, ${i}u, n0 + ${g * 4}u);`).join(
          "\n",
        ),
    );
  const columnOfB = (column: number, access: number) =>
    takesRuns
      ? runAccessWgsl(`r${column}`, access)
      : scaleRun
      ? `b_scaled(b${column} + k, q${column})`
      : `b_four(b${column}, k)`;
  const columnsOf = (value: (column: number) => string) =>
    each(groups, (g) => {
      const columnLoads = each(4, (c) => `    let c${g}_${c} = ${value(g * 4 + c)};`);
      const transposed = each(4, (i) => {
        const component = "xyzw"[i];
        return `    let w${g}_${i} = vec4<f32>(${
          each(4, (c) => `c${g}_${c}.${component}`).join(", ")
        });`;
      });
      return [...columnLoads, ...transposed].join("\n");
    });
  const loads = (a: string) =>
    each(rowLoads, (i) => `    let l${i} = ${a}_four(a${i}, k);`).join("\n");
  const products = (a: string, loadRows = loads(a)) => [
    ...(broadcasts ? [loadRows] : []),
    ...each(rows, (r) =>
      [
        broadcasts
          ? `    let x${r} = subgroupBroadcast(l${Math.floor(r / GEMM_LANES)}, ${r % GEMM_LANES}u);`
          : `    let x${r} = ${a}_four(a${r}, k);`,
        ...each(groups * 4, (i) => {
          const g = i % groups;
          const step = Math.floor(i / groups);
          return `    s${r}_${g} = fma(vec4<f32>(x${r}.${
            "xyzw"[step]
          }), w${g}_${step}, s${r}_${g});`;
        }),
      ].join("\n")),
  ];
  const loop = walkRows(columns, scaleRun, takesRuns, (access) =>
    [
      ...(layout === "kn" ? rowsOfB() : columnsOf((column) => columnOfB(column, access))),
      ...products("a", norm && normStep(norm, tile)),
    ].join("\n"));
  const lowRankLoop = lowRankWalk(epilogue.lowRank, (t, up) =>
    [
      ...rowAddresses(t),
      ...columnAddresses(up),
      walkRows(columns, undefined, false, () =>
        [
          ...columnsOf((column) => `${up}_four(b${column}, k)`),
          ...products(t),
        ].join("\n")),
    ].join("\n"));
  const stores = each(rows, (r) => {
    const lines = each(groups, (g) => {
      const column = `n0 + ${g * 4}u`;
      if (isVectorN) {
        return `    if (${column} < params.n) { finish(y_row + ${r}u, ${column}, s${r}_${g}); }`;
      }
      return each(
        4,
        (c) =>
          `    if (${column} + ${c}u < params.n) { finish(y_row + ${r}u, ${column} + ${c}u, s${r}_${g}.${
            "xyzw"[c]
          }); }`,
      ).join("\n");
    });
    return `  if (m0 + ${r}u < params.m) {\n${lines.join("\n")}\n  }`;
  });
  return {
    name: `gemm registers${broadcasts ? " broadcast" : ""} ${layout} ${rows}x${columns}${
      isVectorK ? "" : " odd k"
    }${isVectorN ? "" : " odd n"}${isBatched ? " batched" : ""}${
      scaleRun ? ` scales ${scaleRun}` : ""
    }${normName(norm)}${epilogueName(epilogue)}`,
    buffers: [
      { name: "a", access: "read", width: aWidth },
      { name: "b", access: "read", width: bWidth },
      ...normBuffers(norm),
      ...epilogueBuffers(epilogue, yWidth),
    ],
    params: {
      ...gemmParams(isBatched),
      ...(isBatched ? {} : { band: "u32" as const }),
      ...normParams(norm),
      ...epilogueParams(epilogue),
    },
    workgroupSize: [GEMM_LANES, 1, 1],
    body: `${rowLoader("a", isVectorK)}
${scaleRun ? "" : layout === "nk" ? rowLoader("b", isVectorK) : columnLoader(isVectorK, isVectorN)}
${epilogueWgsl(startsAtBias ? { ...epilogue, bias: false } : epilogue, yWidth)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let n0 = (${
      isBatched ? "wg.x" : "(wg.z * params.band + wg.x)"
    } * ${GEMM_LANES}u + local.x) * ${columns}u;
  let m0 = wg.y * ${rows}u;
${broadcasts ? "" : "  if (n0 >= params.n) { return; }"}
${batchWgsl(isBatched, aWidth, bWidth)}
  let y_row = ${isBatched ? "wg.z * params.m + m0" : "m0"};
  let row_words = params.k${isVectorK ? " / 4u" : ""};
  let steps = (params.k + 3u) / 4u;
${rowAddresses("a").join("\n")}
${layout === "nk" ? columnAddresses("b").join("\n") : ""}
${[...starts, ...sums].join("\n")}
${norm ? normStart(tile, startOf) : ""}
${loop}
${norm ? normFinish(tile) : ""}
${lowRankLoop}
${stores.join("\n")}
}`,
  };
}

/** The biases of the four columns from the invocation's `column` on. */
function biasOf(column: number, isVectorN: boolean): string {
  if (isVectorN) return `bias_at(min(n0 + ${column}u, params.n - 4u) / 4u)`;
  const element = (i: number) => `bias_at(min(n0 + ${column + i}u, params.n - 1u))`;
  return `vec4<f32>(${[0, 1, 2, 3].map(element).join(", ")})`;
}

/** The loop over `k` around `step`; a quantised b has its scales, or its runs, fetched outside of it. */
function walkRows(
  columns: number,
  scaleRun: BlockFormat["scaleRun"] | undefined,
  takesRuns: boolean,
  step: (access: number) => string,
): string {
  const each = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join("\n");
  if (takesRuns) {
    return `  for (var k0 = 0u; k0 < steps; k0 = k0 + ${RUN_ACCESSES}u) {
${each(columns, (c) => `    let r${c} = b_run(b${c} + k0);`)}
${each(RUN_ACCESSES, (j) => `    {\n    let k = k0 + ${j}u;\n${step(j)}\n    }`)}
  }`;
  }
  if (scaleRun) {
    return `  let run = ${scaleRun === "row" ? "steps" : `${scaleRun}u`};
  for (var k0 = 0u; k0 < steps; k0 = k0 + run) {
${each(columns, (c) => `    let q${c} = b_scale(b${c} + k0);`)}
    for (var k = k0; k < k0 + run; k = k + 1u) {
${step(0)}
    }
  }`;
  }
  return `  for (var k = 0u; k < steps; k = k + 1u) {\n${step(0)}\n  }`;
}

/** `b_four(start, k, i, n)`: row 4k+i of b, columns n … n+3; zeros below its last row, anything right of it. */
function columnLoader(isVectorK: boolean, isVectorN: boolean): string {
  const row = isVectorK ? "4u * k + i" : "min(4u * k + i, params.k - 1u)";
  const load = isVectorN
    ? `b_at(start + (row * params.n + min(n, params.n - 4u)) / 4u)`
    : `vec4<f32>(${
      [0, 1, 2, 3].map((c) => `b_at(start + row * params.n + min(n + ${c}u, params.n - 1u))`).join(
        ", ",
      )
    })`;
  return `fn b_four(start: u32, k: u32, i: u32, n: u32) -> vec4<f32> {
  let row = ${row};
  let v = ${load};
  return ${isVectorK ? "v" : "select(vec4<f32>(), v, vec4<bool>(4u * k + i < params.k))"};
}`;
}
