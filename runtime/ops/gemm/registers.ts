/** Matrix products on software adapters: which tile of registers an invocation computes. */
import type { WeightFormat } from "../../quantization/block_format.ts";
import { BLOCK_FORMATS } from "../../quantization/formats.ts";
import registersSource from "../../shaders/gemm/registers.wgsl" with { type: "text" };
import type { ParamValues } from "../../shaders/expand.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import { hasSubgroupsOf, MESA_SOFTWARE } from "../variants.ts";
import { epilogueParams } from "./epilogue.ts";
import { sparesNorm } from "./norm.ts";
import type { GemmProblem, GemmVariant } from "./problem.ts";

const REGISTERS_FILE = new KernelFile("gemm/registers", registersSource);

/** Invocations per workgroup, and of a subgroup where one broadcasts to the others. */
const GEMM_LANES = 8;
/** Rows of a product that are one tile of four columns. */
const FEW_ROWS = 4;
/** Rows of a product that one register tile of 8 columns takes. */
const LOW_ROWS = 16;
/** Rows of a product, as a short prompt has, that one tile of 8 columns takes where the sums are long. */
const PROMPT_ROWS = 32;
/** Elements of a long sum: its product takes so long that a tile of its own is worth compiling. */
const LONG_SUM = 1024;
/** Rows of a product from which on wide tiles may win. */
const WIDE_ROWS = 128;

/** Heights of tiles of 4 columns. */
const HEIGHTS = [64, 48, 32, 24];
/** Heights of tiles for long sums, which take the longest. */
const LONG_HEIGHTS = [...HEIGHTS, 56, 40, 28, 20];
/** Of small products: the same few for all of them, as each height is a kernel that takes long to compile. */
const SMALL_HEIGHTS = [32, 24];
/** Multiplications of a product that takes less than a millisecond. */
const SMALL = 2 ** 23;
/** Those up to which a kernel more, or a longer one, takes longer to compile than it saves in hundreds of steps. */
const LIGHT = 2 ** 26;
/** Rows that kernels of others finish at once. */
const FINISHED = 16;

/** Tile of one invocation in the register kernels. */
interface RegisterTile {
  readonly rows: number;
  readonly columns: number;
}

function registersVariant(
  name: string,
  broadcasts: boolean,
  tileOf: (problem: GemmProblem) => RegisterTile,
  turns: (problem: GemmProblem) => boolean,
  { leastRows = 1, isSpare = false } = {},
): GemmVariant & { tileOf(problem: GemmProblem): RegisterTile } {
  const asks = (problem: GemmProblem) => isSpare || isLight(problem);
  return {
    name,
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    isSpare,
    tileOf,
    asks,
    supports: ({ m, epilogue }, { features }) =>
      m >= leastRows && !epilogue.glu && (!broadcasts || hasSubgroupsOf(GEMM_LANES, features)),
    normalizes: (problem) =>
      broadcasts && !isSpare && !turns(problem) && sparesNorm(problem, tileOf(problem)),
    plan(problem) {
      const { m, n, k, layout, epilogue, batch, format, norm, asked } = problem;
      const { rows, columns } = compiledTile(problem, tileOf(problem));
      return {
        kernel: REGISTERS_FILE.kernel({
          LAYOUT: layout,
          ROWS: rows,
          COLUMNS: columns,
          VECTOR_K: k % 4 === 0,
          VECTOR_N: n % 4 === 0,
          BATCHED: batch !== undefined,
          BROADCASTS: broadcasts,
          TURNS: turns(problem),
          ...(!asks(problem) && { FINISHED }),
          ...(format && scaleParams(format)),
          ...norm,
          ...epilogueParams(epilogue),
          ...asked,
        }),
        workgroups: batch
          ? [Math.ceil(n / (GEMM_LANES * columns)), Math.ceil(m / rows), batch.count]
          : bandedGrid(problem, rows, GEMM_LANES * columns),
      };
    },
  };
}

// Larger tiles load less per product, but leave more lanes idle at the edges and take longer to compile.
export const REGISTERS = registersVariant("registers", false, (problem) => {
  const { m, n, k } = problem;
  if (m <= FEW_ROWS) return { rows: m, columns: 4 };
  if (m <= 8) return { rows: 8, columns: 8 };
  return m >= 128 && n >= 512 && k >= 256 ? { rows: 16, columns: 16 } : { rows: 16, columns: 8 };
}, () => false);

// With broadcasts rows cost an eighth of a load each, so that tiles are tall.
export const BROADCAST = registersVariant(
  "broadcast",
  true,
  (problem) => {
    const { m } = problem;
    if (m <= FEW_ROWS) return { rows: m, columns: 4 };
    if (m <= LOW_ROWS) return { rows: heightOf(problem), columns: 8 };
    return bestTile(problem, isLong(problem) ? LONG_HEIGHTS : HEIGHTS, 4);
  },
  (problem) => problem.m > FEW_ROWS && problem.m <= LOW_ROWS && takesRuns(problem),
);

// Half as tall and twice as wide: as many products, half as many broadcasts.
export const BROADCAST_8 = registersVariant(
  "broadcast8",
  true,
  (problem) =>
    problem.m <= PROMPT_ROWS && isLong(problem)
      ? { rows: heightOf(problem), columns: 8 }
      : bestTile(problem, [32, 24, 16], 8),
  takesRuns,
  { leastRows: LOW_ROWS + 1 },
);

// One short kernel for products of all sizes: for whoever waits longer for a kernel than for what it computes.
export const BROADCAST_24 = registersVariant(
  "broadcast24",
  true,
  () => ({ rows: 24, columns: 4 }),
  () => false,
  { isSpare: true },
);

/** The rows of a product that is one tile high, and as many more as make it a multiple of 4, or of 8 of a short sum. */
function heightOf(problem: GemmProblem): number {
  const step = isLong(problem) ? 4 : 8;
  return Math.ceil(problem.m / step) * step;
}

/** The tile that a product takes in place of its best one. */
function compiledTile(problem: GemmProblem, best: RegisterTile): RegisterTile {
  const isCommon = best.columns > 4 || best.rows <= Math.max(...SMALL_HEIGHTS);
  return isCommon || !isSmall(problem) ? best : bestTile(problem, SMALL_HEIGHTS, 4);
}

function isSmall(problem: GemmProblem): boolean {
  return productsOf(problem) <= SMALL;
}

function isLight(problem: GemmProblem): boolean {
  return productsOf(problem) <= LIGHT;
}

function productsOf({ m, n, k, batch }: GemmProblem): number {
  return m * n * k * (batch?.count ?? 1);
}

function isLong({ k }: GemmProblem): boolean {
  return k >= LONG_SUM;
}

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

/** How far one scale of a quantised b holds. */
function scaleParams(format: WeightFormat): ParamValues {
  const { scaleRun } = BLOCK_FORMATS[format];
  return scaleRun === "row" ? { SCALES: "row" } : { SCALES: "runs", RUN: scaleRun };
}

/**
 * Whether a quantised b is read by runs of 32 elements: such as have a byte for each are as fast one `vec4` at a time.
 */
function takesRuns({ format }: GemmProblem): boolean {
  return format !== undefined && format !== "q8_0" && BLOCK_FORMATS[format].scaleRun !== "row";
}

/**
 * Whether `broadcast8` is the first choice. For short prompts it is, and for `q6_k`, whose runs spare it the most; in layout
 * `kn` every row of b lies in a page of its own, and wide tiles go to fewer of them.
 */
export function suitsWideTiles(problem: GemmProblem): boolean {
  const { m, layout, batch, format } = problem;
  if (format === "q6_k") return true;
  const isPlain = format === undefined && layout === "nk" && !batch;
  if (m <= PROMPT_ROWS && isLong(problem) && (isPlain || takesRuns(problem))) return true;
  if (layout === "nk" || m < WIDE_ROWS) return false;
  return tileCost(problem, BROADCAST_8.tileOf(problem)) <
    tileCost(problem, BROADCAST.tileOf(problem));
}
