/** When kernels for matrix units may be used, and which of the adapter's multiplications they take. */
import type { StorageFormat } from "../dtype.ts";
import type { Graph } from "../graph/graph.ts";
import type { ParamValues } from "../shaders/expand.ts";
import type { Target, TargetFeatures } from "../target.ts";

/** What the factors of a multiplication may be; its sums are f32. */
export type MatrixElement = "f16" | "f32";

/** A subgroup's multiplication, and the subgroups that do it. */
export interface MatrixUnit {
  readonly element: MatrixElement;
  /** Rows of one multiplication: 8 or 16. */
  readonly m: number;
  /** Columns: 8 or 16. */
  readonly n: number;
  /** Depth, columns of the first factor: 8, 16 or 32. */
  readonly k: number;
  /** Invocations of a subgroup. */
  readonly lanes: number;
  /** The adapter could choose another number of invocations. */
  readonly isForced: boolean;
}

/** The tile of a workgroup, see `shaders/matrix/tile.wgsl`. */
export interface MatrixTile {
  readonly unit: MatrixUnit;
  /** Rows of the result, a multiple of 32. */
  readonly rows: number;
  /** Columns of the result, a multiple of 32. */
  readonly columns: number;
  /** `vec4`s along the sum in a tile; {@linkcode MATRIX_DEPTH} by default. */
  readonly depth?: number;
  /** Tiles of each factor: one is filled while another is multiplied; 1 by default. */
  readonly tiles?: 1 | 2;
  /** Of the workgroup; {@linkcode MATRIX_SUBGROUPS} by default. */
  readonly subgroups?: number;
  /** Columns of a subgroup's sums that go through workgroup memory at a time; all of them by default. */
  readonly sumColumns?: number;
}

/** Subgroups of a workgroup, but for tiles with more. */
export const MATRIX_SUBGROUPS = 4;
/** `vec4`s along the sum in a tile. */
export const MATRIX_DEPTH = 8;
/** `vec4`s more from one row of a tile to the next. */
const PADDING = 2;
/** `vec4`s along the sum in tiles of 128 columns: less than elsewhere, so that two of each factor fit. */
const SHORT_DEPTH = 4;
/** Rows of such a tile for each of its subgroups, half as many in subgroups that are narrow: more sums are too many for registers. */
const LARGE_ROWS = 32;
const NARROW_SUBGROUP = 16;

/** Parameters of `shaders/matrix/unit.wgsl`. */
export function unitParams({ element, m, n, k, lanes, isForced }: MatrixUnit): ParamValues {
  return {
    ELEMENT: element,
    UNIT_M: m,
    UNIT_N: n,
    UNIT_K: k,
    LANES: lanes,
    FORCES_LANES: isForced,
  };
}

/** Parameters of `shaders/matrix/tile.wgsl`. */
export function tileParams(
  { unit, rows, columns, depth, tiles, subgroups, sumColumns }: MatrixTile,
): ParamValues {
  return {
    ...unitParams(unit),
    TILE_ROWS: rows,
    TILE_COLUMNS: columns,
    ...(depth !== undefined && { DEPTH: depth }),
    ...(tiles !== undefined && { TILES: tiles }),
    ...(subgroups !== undefined && { SUBGROUPS: subgroups }),
    ...(sumColumns !== undefined && { SUM_COLUMNS: sumColumns }),
  };
}

/** Of 128 columns two tiles of each factor, with as much of the sums at a time as leaves room for them. */
export function matrixTileOf(
  unit: MatrixUnit,
  rows: number,
  columns: number,
  layout: "nk" | "kn",
  { limits }: Target,
  ownBytes = 0,
): MatrixTile | undefined {
  const fits = (tile: MatrixTile) =>
    matrixTileBytes(tile, layout) + ownBytes <= limits.maxWorkgroupMemoryBytes;
  if (columns < 128) {
    const tile = { unit, rows, columns };
    return fits(tile) ? tile : undefined;
  }
  const subgroups = rows / LARGE_ROWS * (unit.lanes <= NARROW_SUBGROUP ? 2 : 1);
  if (subgroups * unit.lanes > limits.maxWorkgroupInvocations) return undefined;
  const tile: MatrixTile = {
    unit,
    rows,
    columns,
    depth: Math.max(SHORT_DEPTH, unit.k / 4),
    ...(subgroups !== MATRIX_SUBGROUPS && { subgroups }),
  };
  const strips: MatrixTile[] = [tile, ...[32, 16].map((sumColumns) => ({ ...tile, sumColumns }))];
  return [...strips.map((strip): MatrixTile => ({ ...strip, tiles: 2 })), ...strips].find(fits);
}

/**
 * Workgroups below which a GPU is better filled by smaller tiles, and of the smallest by split sums; not measured yet.
 * Workgroups of 256 invocations fill it with fewer, but leave more idle at the edges and in the last round.
 */
export const FEW_TILES = 64;
/** The same for tiles of 128 x 128: about the processors of a large GPU. */
export const FEW_LARGE_TILES = 128;

/** Names of tiles in the order of preference for `count` results of this size; nothing of it is measured yet. */
export function matrixOrder(rows: number, columns: number, count: number): readonly string[] {
  const tiles = (side: number) => Math.ceil(rows / side) * Math.ceil(columns / side) * count;
  // Tiles of 128 x 64 are half as many.
  if (tiles(64) < FEW_TILES) return MATRIX_TILES.toReversed();
  if (tiles(64) < 2 * FEW_TILES) {
    return ["matrix64", "matrix32", "matrix128", "matrix128x128", "matrix256x128"];
  }
  if (tiles(128) < 2 * FEW_LARGE_TILES) {
    return ["matrix128", "matrix64", "matrix32", "matrix128x128", "matrix256x128"];
  }
  // Whether the largest win anywhere is not known, so that only a tuning run takes them.
  return ["matrix128x128", "matrix128", "matrix64", "matrix32", "matrix256x128"];
}

/** Names of tiles, the largest first. */
const MATRIX_TILES = ["matrix256x128", "matrix128x128", "matrix128", "matrix64", "matrix32"];

/** Bytes of workgroup memory that a tile and its sums take. */
export function matrixTileBytes(
  tile: MatrixTile,
  layout: "nk" | "kn",
): number {
  const { unit, rows, columns, depth = MATRIX_DEPTH, tiles = 1 } = tile;
  const { subgroups = MATRIX_SUBGROUPS, sumColumns = columns / 2 } = tile;
  const step = depth + PADDING;
  const second = layout === "nk" ? columns * step : 4 * depth * (columns / 4 + PADDING);
  const vectorBytes = unit.element === "f16" ? 8 : 16;
  return vectorBytes * tiles * (rows * step + second) +
    16 * subgroups * unit.m * (sumColumns / 4 + 1);
}

/** Fewest invocations of a subgroup, of those that the adapter lets choose, that matrix units were made for. */
const LEAST_LANES = 16;
/** Invocations of a subgroup that may also be smaller. */
const USUAL_LANES = 32;

/** The largest multiplication of `element` (f16, on Apple's units f32) with sums in f32; nothing where the adapter tells of none. */
export function matrixUnitOf(
  { features, limits }: Target,
  element: MatrixElement = "f16",
): MatrixUnit | undefined {
  const lanes = lanesOf(features);
  if ((element === "f16" && !features.f16) || lanes === undefined) return undefined;
  if (limits.maxWorkgroupInvocations < MATRIX_SUBGROUPS * lanes) return undefined;
  const usable = features.subgroupMatrices.filter((
    { componentType, resultComponentType, m, n, k },
  ) =>
    componentType === element && resultComponentType === "f32" &&
    [m, n].every((size) => size === 8 || size === 16) && [8, 16, 32].includes(k)
  );
  const volume = ({ m, n, k }: { m: number; n: number; k: number }) => m * n * k;
  const best = usable.toSorted((a, b) => volume(b) - volume(a))[0];
  if (!best) return undefined;
  const isForced = features.subgroupMinSize !== features.subgroupMaxSize;
  return { element, m: best.m, n: best.n, k: best.k, lanes, isForced };
}

/** The multiplication of an op: of f16 where its factors may be rounded to that, else of f32, which only Apple's units have. */
export function matrixUnitFor(mayRound: boolean, target: Target): MatrixUnit | undefined {
  return (mayRound ? matrixUnitOf(target, "f16") : undefined) ?? matrixUnitOf(target, "f32");
}

export function whyNoMatrixUnit(target: Target): string | undefined {
  if (matrixUnitFor(true, target)) return undefined;
  return target.features.subgroupMatrices.length === 0
    ? "the adapter lists no matrix units"
    : "none of the adapter's matrix units suits our tiles";
}

/** Invocations of every subgroup, 8 to 64. */
function lanesOf(features: TargetFeatures): number | undefined {
  const { subgroupMinSize: min, subgroupMaxSize: max, subgroupSizeControl } = features;
  if (min !== max && !subgroupSizeControl) return undefined;
  const lanes = min >= LEAST_LANES ? min : Math.min(max, USUAL_LANES);
  return lanes >= 8 && lanes <= 64 ? lanes : undefined;
}

/** Whether products may round factors to f16: the target allows it, no weight is f32, and no factor of the layer is beyond f16. */
export function mayRoundToHalf(
  op: string,
  { target, saturation }: Graph,
  layer: string,
  weight?: StorageFormat,
): boolean {
  if (target.forcedVariants[op] !== undefined) return true;
  return target.operands !== "f32" && weight !== "f32" && !saturation.wide.has(layer);
}
