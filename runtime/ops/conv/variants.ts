/** All ways to convolve, and which comes first. */
import { FEW_LARGE_TILES, matrixOrder } from "../matrix_unit.ts";
import type { ConvProblem, ConvVariant } from "./problem.ts";
import { BROADCAST, REGISTERS, REGISTERS_4, WINOGRAD } from "./registers.ts";
import { MATRIX_VARIANTS, TILES_VARIANTS } from "./tiles.ts";

const SMALL_TILES_FIRST = [...TILES_VARIANTS.slice(2), ...TILES_VARIANTS.slice(0, 2)];

/** All ways to convolve; their order depends on the problem. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  WINOGRAD,
  BROADCAST,
  REGISTERS,
  ...MATRIX_VARIANTS,
  ...TILES_VARIANTS,
  REGISTERS_4,
];

/** The ways to convolve in the order of preference for a problem, within a class of adapters. */
export function convByPreference(problem: ConvProblem): readonly ConvVariant[] {
  const { channels, height, width, frames } = problem;
  const order = matrixOrder(height * width, channels, frames);
  const place = ({ name }: ConvVariant) => order.indexOf(name.replace(/-norm$/, ""));
  const matrix = MATRIX_VARIANTS.toSorted((a, b) => place(a) - place(b));
  const large = Math.ceil(height * width / 128) * Math.ceil(channels / 128) * frames;
  const tiles = large >= FEW_LARGE_TILES ? TILES_VARIANTS : SMALL_TILES_FIRST;
  return [WINOGRAD, BROADCAST, REGISTERS, ...matrix, ...tiles, REGISTERS_4];
}
