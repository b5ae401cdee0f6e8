/**
 * Matrix products on matrix units. Measured so far on a software adapter only, where they are exact and slow. Of real
 * cards remain to be measured: the tiles against each other and against `shared64` by size of the product, the number of
 * tiles below which smaller ones win, how deep a tile should be, and the prefetch of the next one.
 */
import matrixSource from "../../shaders/gemm/matrix.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import {
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

/** The variant with tiles of this size. */
function matrixVariant(name: string, rows: number, columns: number): GemmVariant {
  const tileOf = ({ mayRound }: GemmProblem, target: Target): MatrixTile | undefined => {
    const unit = (mayRound ? matrixUnitOf(target, "f16") : undefined) ??
      matrixUnitOf(target, "f32");
    return unit && { unit, rows, columns };
  };
  return {
    name,
    schedule: "gpu",
    supports(problem, target) {
      const { m, n, layout } = problem;
      const tile = tileOf(problem, target);
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = rows === 32 || (m > rows / 2 && n > columns / 2);
      return fits && tile !== undefined &&
        matrixTileBytes(tile, layout) <= target.limits.maxWorkgroupMemoryBytes;
    },
    plan(problem, target) {
      const { m, n, k, layout, epilogue, batch, format } = problem;
      return {
        kernel: MATRIX_FILE.kernel({
          ...tileParams(tileOf(problem, target)!),
          LAYOUT: layout,
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

/** Tiles of 128 x 64. */
export const MATRIX_128 = matrixVariant("matrix128", 128, 64);
/** Tiles of 64 x 64. */
export const MATRIX_64 = matrixVariant("matrix64", 64, 64);
/** Tiles of 32 x 32. */
export const MATRIX_32 = matrixVariant("matrix32", 32, 32);
