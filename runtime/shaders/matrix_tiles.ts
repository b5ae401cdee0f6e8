/**
 * Tiles for matrix units, shared by matrix products and convolutions: factors in workgroup memory as f16, subgroups that
 * multiply and add small matrices of them in f32, and sums that go back through workgroup memory.
 *
 * A workgroup has four subgroups, each with a quarter of the tile. Factors are rounded to f16, and what f16 does not
 * hold becomes ±65504: a sum is wrong then, but finite.
 */

import type { Kernel } from "./assemble.ts";
import { each } from "./each.ts";

/** A subgroup's multiplication, f16 to f32, and the subgroups that do it. */
export interface MatrixUnit {
  /** Rows, columns and depth of one multiplication: 8 or 16, depth also 32. */
  readonly m: number;
  /** Columns. */
  readonly n: number;
  /** Depth: columns of the first factor. */
  readonly k: number;
  /** Invocations of a subgroup. */
  readonly lanes: number;
  /** The adapter could choose another number of invocations. */
  readonly isForced: boolean;
}

/** The tile of a workgroup. */
export interface MatrixTile {
  readonly unit: MatrixUnit;
  /** Rows of the result, a multiple of 32. */
  readonly rows: number;
  /** Columns of the result, a multiple of 32. */
  readonly columns: number;
}

/** Subgroups of a workgroup, half of them along each side of the tile. */
export const MATRIX_SUBGROUPS = 4;
/** `vec4`s along the sum that lie in workgroup memory at a time. */
export const MATRIX_DEPTH = 8;
/** `vec4`s more from one row of a tile to the next, so that neighbouring rows lie in different banks. */
const PADDING = 2;
/** The same for sums: theirs are twice as large. */
const SUM_PADDING = 1;

/** Layout of the second factor: its tile has a row for every column of the result (`nk`), or for every step of the sum. */
export type MatrixLayout = "nk" | "kn";

/** How the workgroup brings one factor into its tile, named `tile_NAME`. */
export interface MatrixSource {
  readonly name: "a" | "b";
  /** `vec4`s that an invocation brings. */
  readonly count: number;
  /** WGSL: where in the tile the i-th of them belongs. */
  place(i: number): { row: string; word: string };
  /** WGSL: assigns them, for the step `k` of the sum, to `NAME_next0` and so on; zeros past the end of the sum. */
  fetch(k: string): string;
}

/** Invocations of a workgroup. */
export function matrixThreads({ lanes }: MatrixUnit): number {
  return MATRIX_SUBGROUPS * lanes;
}

/** Rows, or `kn` steps, of the second factor's tile, and `vec4`s from one to the next. */
function secondTile({ columns }: MatrixTile, layout: MatrixLayout): { rows: number; step: number } {
  return layout === "nk"
    ? { rows: columns, step: MATRIX_DEPTH + PADDING }
    : { rows: 4 * MATRIX_DEPTH, step: columns / 4 + PADDING };
}

/** `vec4`s from one row of the first factor's tile to the next. */
const FIRST_STEP = MATRIX_DEPTH + PADDING;

/** Rows and columns of a subgroup, and `vec4`s from one row of its sums in workgroup memory to the next. */
function share({ rows, columns }: MatrixTile): { rows: number; columns: number; step: number } {
  return { rows: rows / 2, columns: columns / 2, step: columns / 8 + SUM_PADDING };
}

/** Bytes of workgroup memory that the tiles and sums take. */
export function matrixTileBytes(tile: MatrixTile, layout: MatrixLayout): number {
  const second = secondTile(tile, layout);
  return 8 * (tile.rows * FIRST_STEP + second.rows * second.step) +
    16 * MATRIX_SUBGROUPS * tile.unit.m * share(tile).step;
}

/** A kernel with this tile; its body has `fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32)`. */
export function matrixKernel(
  { unit, rows, columns }: MatrixTile,
  kernel: Pick<Kernel, "name" | "buffers" | "params" | "body">,
): Kernel {
  return {
    ...kernel,
    name: `${kernel.name} ${rows}x${columns}${matrixUnitName(unit)}`,
    ...matrixExecution(unit),
  };
}

/** The multiplication and its subgroups, for the name of a kernel. */
export function matrixUnitName({ m, n, k, lanes }: MatrixUnit): string {
  return ` by ${m}x${n}x${k} of ${lanes}`;
}

/** What every kernel on matrix units asks of the runtime. */
export function matrixExecution(
  unit: MatrixUnit,
): Pick<Kernel, "workgroupSize" | "usesF16" | "roundsToHalf" | "usesSubgroupId" | "subgroupSize"> {
  return {
    workgroupSize: [matrixThreads(unit), 1, 1],
    usesF16: true,
    roundsToHalf: true,
    usesSubgroupId: true,
    ...(unit.isForced && { subgroupSize: unit.lanes }),
  };
}

/** Workgroup memory, and `fn half4` which rounds to f16. */
export function matrixTileWgsl(tile: MatrixTile, layout: MatrixLayout): string {
  const second = secondTile(tile, layout);
  return `var<workgroup> tile_a: array<vec4<f16>, ${tile.rows * FIRST_STEP}>;
var<workgroup> tile_b: array<vec4<f16>, ${second.rows * second.step}>;
var<workgroup> tile_sums: array<vec4<f32>, ${MATRIX_SUBGROUPS * tile.unit.m * share(tile).step}>;
${HALF_WGSL}`;
}

/** `fn half4(v: vec4<f32>) -> vec4<f16>`: rounds; what f16 does not hold becomes the largest that it does. */
export const HALF_WGSL = `fn half4(v: vec4<f32>) -> vec4<f16> {
  return vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}`;

/** Declares the sums of a subgroup, zeros. */
export function matrixSumsWgsl(tile: MatrixTile): string {
  const { m, n } = tile.unit;
  return eachSum(tile, (i, j) => `  var s${i}_${j} = subgroup_matrix_result<f32, ${n}, ${m}>();`);
}

/**
 * The loop along the sum, from step `first` up to `steps`, both in `vec4`s: while a subgroup multiplies one tile, its
 * invocations load the next one.
 */
export function matrixWalkWgsl(
  tile: MatrixTile,
  layout: MatrixLayout,
  a: MatrixSource,
  b: MatrixSource,
  first = "0u",
): string {
  const sources = [a, b];
  const steps = { a: FIRST_STEP, b: secondTile(tile, layout).step };
  const place = ({ name, place }: MatrixSource, i: number) => {
    const { row, word } = place(i);
    return `${row} * ${steps[name]}u + ${word}`;
  };
  const all = (line: (source: MatrixSource, i: number) => string) =>
    sources.map((source) => each(source.count, (i) => line(source, i))).join("\n");
  return `${all(({ name }, i) => `  var ${name}_next${i} = vec4<f32>();`)}
${sources.map(({ fetch }) => fetch(first)).join("\n")}
  for (var k0 = ${first}; k0 < steps; k0 = k0 + ${MATRIX_DEPTH}u) {
${
    all((source, i) =>
      `    tile_${source.name}[${place(source, i)}] = half4(${source.name}_next${i});`
    )
  }
    workgroupBarrier();
${sources.map(({ fetch }) => fetch(`(k0 + ${MATRIX_DEPTH}u)`)).join("\n")}
${productsWgsl(tile, layout)}
    workgroupBarrier();
  }`;
}

/** Multiplies the subgroup's parts of both tiles. */
function productsWgsl(tile: MatrixTile, layout: MatrixLayout): string {
  const { m, n, k } = tile.unit;
  const own = share(tile);
  const { step } = secondTile(tile, layout);
  const left = `subgroup_matrix_left<f16, ${k}, ${m}>`;
  const right = `subgroup_matrix_right<f16, ${n}, ${k}>`;
  const rows = `subgroup / 2u * ${own.rows}u`;
  const columns = `subgroup % 2u * ${own.columns}u`;
  const at = (j: number) =>
    layout === "nk"
      ? `(${columns} + ${j * n}u) * ${step}u + d * ${k / 4}u, ${step}u`
      : `d * ${k * step}u + (${columns} + ${j * n}u) / 4u, ${step}u`;
  const order = layout === "nk" ? "col_major" : "row_major";
  // A loop, so that software adapters compile it in seconds; compilers of GPUs unroll it.
  return `    for (var d = 0u; d < ${4 * MATRIX_DEPTH / k}u; d = d + 1u) {
${
    each(
      own.rows / m,
      (i) =>
        `      let l${i} = subgroupMatrixLoad<${left}, row_major>(&tile_a, (${rows} + ${
          i * m
        }u) * ${FIRST_STEP}u + d * ${k / 4}u, ${FIRST_STEP}u);`,
    )
  }
${
    each(own.columns / n, (j) =>
      `      let r${j} = subgroupMatrixLoad<${right}, ${order}>(&tile_b, ${at(j)});`)
  }
${
    eachSum(tile, (i, j) =>
      `      s${i}_${j} = subgroupMatrixMultiplyAccumulate(l${i}, r${j}, s${i}_${j});`)
  }
    }`;
}

/**
 * Hands out the sums: `store` makes WGSL that takes four of them, `sum`, from `column` of `row` on, both counted in the
 * tile. The parts of all subgroups with the same place are in workgroup memory at a time.
 */
export function matrixResultsWgsl(tile: MatrixTile, store: string): string {
  const { m, n } = tile.unit;
  const own = share(tile);
  const words = own.columns / 4;
  const part = m * words;
  return each(
    own.rows / m,
    (i) =>
      `${
        each(own.columns / n, (j) =>
          `  subgroupMatrixStore<row_major>(&tile_sums, subgroup * ${m * own.step}u + ${
            j * n / 4
          }u, s${i}_${j}, ${own.step}u);`)
      }
  workgroupBarrier();
  for (var item = thread; item < ${MATRIX_SUBGROUPS * part}u; item = item + ${
        matrixThreads(tile.unit)
      }u) {
    let part = item / ${part}u;
    let in_row = item / ${words}u % ${m}u;
    let row = part / 2u * ${own.rows}u + ${i * m}u + in_row;
    let column = part % 2u * ${own.columns}u + item % ${words}u * 4u;
    let sum = tile_sums[part * ${m * own.step}u + in_row * ${own.step}u + item % ${words}u];
${store}
  }
  workgroupBarrier();`,
  );
}

/** A source whose tile has rows along the sum: `load` makes WGSL of `vec4` number `k` of row `row` of the tile. */
export function matrixRows(
  name: "a" | "b",
  rows: number,
  { lanes }: MatrixUnit,
  load: (row: string, k: string) => string,
): MatrixSource {
  const threads = MATRIX_SUBGROUPS * lanes;
  const count = rows * MATRIX_DEPTH / threads;
  const row = (i: number) => `(thread / ${MATRIX_DEPTH}u + ${i * threads / MATRIX_DEPTH}u)`;
  const word = `thread % ${MATRIX_DEPTH}u`;
  return {
    name,
    count,
    place: (i) => ({ row: row(i), word }),
    fetch: (k) => each(count, (i) => `    ${name}_next${i} = ${load(row(i), `${k} + ${word}`)};`),
  };
}

function eachSum(tile: MatrixTile, line: (i: number, j: number) => string): string {
  const own = share(tile);
  return each(
    own.rows / tile.unit.m,
    (i) => each(own.columns / tile.unit.n, (j) => line(i, j)),
  );
}
