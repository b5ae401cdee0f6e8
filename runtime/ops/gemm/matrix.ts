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
  type MatrixTile,
  matrixTileOf,
  matrixUnitFor,
  tileParams,
} from "../matrix_unit.ts";
import { epilogueParams } from "./epilogue.ts";
import type { GemmProblem, GemmVariant } from "./problem.ts";

const MATRIX_FILE = new KernelFile("gemm/matrix", matrixSource);

/** The variant with tiles of this size. */
function matrixVariant(name: string, rows: number, columns: number): GemmVariant {
  const isLarge = columns === 128;
  const tileOf = (
    { mayRound, layout }: GemmProblem,
    target: Target,
  ): MatrixTile | undefined => {
    const unit = matrixUnitFor(mayRound, target);
    return unit && matrixTileOf(unit, rows, columns, layout, target);
  };
  return {
    name,
    schedule: "gpu",
    supports(problem, target) {
      const { m, n, k } = problem;
      const tile = tileOf(problem, target);
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = rows === 32 || (m > rows / 2 && n > columns / 2);
      // Products of models fill large tiles along the sum.
      const isEven = !isLarge || (n % 4 === 0 && k % (4 * (tile?.depth ?? MATRIX_DEPTH)) === 0);
      return fits && isEven && tile !== undefined;
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

/** Tiles of all sizes: those of 128 columns hold two of each factor where workgroup memory does. */
export const MATRIX_VARIANTS: readonly GemmVariant[] = [
  matrixVariant("matrix256x128", 256, 128),
  matrixVariant("matrix128x128", 128, 128),
  matrixVariant("matrix128", 128, 64),
  matrixVariant("matrix64", 64, 64),
  matrixVariant("matrix32", 32, 32),
];
