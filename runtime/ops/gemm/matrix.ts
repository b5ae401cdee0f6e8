/**
 * Matrix products on matrix units. Measured so far on a software adapter only, where they are exact and slow. Of real
 * cards remain to be measured: the tiles against each other and against `shared64` by size of the product, the number of
 * tiles below which smaller ones win, how deep a tile should be, and the prefetch of the next one.
 */
import matrixSource from "../../shaders/gemm/matrix.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import {
  MATRIX_DEPTH,
  type MatrixElement,
  type MatrixTile,
  matrixTileBytes,
  matrixUnitOf,
  tileParams,
} from "../matrix_unit.ts";
import { epilogueParams } from "./epilogue.ts";
import type { GemmProblem, GemmVariant } from "./problem.ts";

const MATRIX_FILE = new KernelFile("gemm/matrix", matrixSource);

/** Factors that products take: f16 where they may be rounded to it, else f32, which only Apple's units have. */
export const GEMM_ELEMENTS: readonly MatrixElement[] = ["f16", "f32"];

/** `vec4`s along the sum in tiles of 128 x 128: less than elsewhere, so that two of each factor fit. */
const SHORT_DEPTH = 4;
/** Subgroups of which a quarter of such a tile's sums would not fit into the registers. */
const NARROW_SUBGROUP = 16;

/** The variant with tiles of this size. */
function matrixVariant(name: string, rows: number, columns: number): GemmVariant {
  const isLarge = columns === 128;
  const tileOf = (
    { mayRound, layout }: GemmProblem,
    target: Target,
  ): MatrixTile | undefined => {
    const unit = (mayRound ? matrixUnitOf(target, "f16") : undefined) ??
      matrixUnitOf(target, "f32");
    if (!unit || !isLarge) return unit && { unit, rows, columns };
    if (unit.lanes === NARROW_SUBGROUP) return undefined;
    const tile = { unit, rows, columns, depth: Math.max(SHORT_DEPTH, unit.k / 4) };
    const twice: MatrixTile = { ...tile, tiles: 2 };
    const { maxWorkgroupMemoryBytes } = target.limits;
    return matrixTileBytes(twice, layout) <= maxWorkgroupMemoryBytes ? twice : tile;
  };
  return {
    name,
    schedule: "gpu",
    supports(problem, target) {
      const { m, n, k, layout } = problem;
      const tile = tileOf(problem, target);
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = rows === 32 || (m > rows / 2 && n > columns / 2);
      // Products of models fill large tiles along the sum.
      const isEven = !isLarge || (n % 4 === 0 && k % (4 * (tile?.depth ?? MATRIX_DEPTH)) === 0);
      return fits && isEven && tile !== undefined &&
        matrixTileBytes(tile, layout) <= target.limits.maxWorkgroupMemoryBytes;
    },
    plan(problem, target) {
      const { m, n, k, layout, epilogue, batch, format } = problem;
      const tile = tileOf(problem, target)!;
      return {
        kernel: MATRIX_FILE.kernel({
          ...tileParams(tile),
          LAYOUT: layout,
          WHOLE_K: k % (4 * (tile.depth ?? MATRIX_DEPTH)) === 0,
          VECTOR_K: k % 4 === 0,
          VECTOR_N: n % 4 === 0,
          BATCHED: batch !== undefined,
          QUANTIZED: format !== undefined,
          ...epilogueParams(epilogue),
        }),
        workgroups: [Math.ceil(n / columns), Math.ceil(m / rows), batch?.count ?? 1],
      };
    },
  };
}

/** Tiles of 128 x 128, two of each factor where workgroup memory holds them. */
export const MATRIX_128X128 = matrixVariant("matrix128x128", 128, 128);
/** Tiles of 128 x 64. */
export const MATRIX_128 = matrixVariant("matrix128", 128, 64);
/** Tiles of 64 x 64. */
export const MATRIX_64 = matrixVariant("matrix64", 64, 64);
/** Tiles of 32 x 32. */
export const MATRIX_32 = matrixVariant("matrix32", 32, 32);
