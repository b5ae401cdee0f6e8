/**
 * Matrix products on matrix units. Measured so far on a software adapter only, where they are exact and slow. Of real
 * cards remain to be measured: the tiles against each other and against `shared64` by size of the product, the number of
 * tiles below which smaller ones win, how deep a tile should be, and the prefetch of the next one.
 */
import { gemmMatrixKernel } from "../shaders/gemm_matrix.ts";
import { type MatrixTile, matrixTileBytes } from "../shaders/matrix_tiles.ts";
import type { Target } from "../target.ts";
import type { GemmVariant } from "./gemm.ts";
import { matrixUnitOf } from "./matrix_unit.ts";

/** The variant with tiles of this size. */
export function matrixVariant(name: string, rows: number, columns: number): GemmVariant {
  const tileOf = (target: Target): MatrixTile | undefined => {
    const unit = matrixUnitOf(target);
    return unit && { unit, rows, columns };
  };
  return {
    name,
    schedule: "gpu",
    supports({ m, n, layout, mayRound }, target) {
      const tile = tileOf(target);
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = rows === 32 || (m > rows / 2 && n > columns / 2);
      return mayRound && fits && tile !== undefined &&
        matrixTileBytes(tile, layout) <= target.limits.maxWorkgroupMemoryBytes;
    },
    plan({ m, n, k, layout, epilogue, batch, format }, target) {
      return {
        kernel: gemmMatrixKernel({
          tile: tileOf(target)!,
          layout,
          isVectorK: k % 4 === 0,
          isVectorN: n % 4 === 0,
          isBatched: batch !== undefined,
          isQuantized: format !== undefined,
          epilogue,
        }),
        workgroups: [Math.ceil(n / columns), Math.ceil(m / rows), batch?.count ?? 1],
      };
    },
  };
}
