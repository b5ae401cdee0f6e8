/** Ratios that the project holds itself to: within one run, so that most hold on every machine. */

import { elementCount, isWeightFormat } from "../../runtime/mod.ts";
import { alignColumns, type Figures } from "./history.ts";

/** Least rate of a convolution, as a share of that of the largest matrix product. */
const CONV_SHARE: Readonly<Record<string, number>> = { conv2d: 0.6, conv3d: 0.5 };
/** Least rate of a quantised layer as a share of an f32 layer's, by rows. */
const QUANTISED_SHARE = { one: 1, many: 0.75 };
const MANY_ROWS = 64;
/** Least time of a program's kernels, as a share of the program's in a loop. */
const KERNEL_SHARE = 0.95;
/** Most seconds of figures. */
const SECONDS: Readonly<Record<string, number>> = { "image 64x64 median": 5, "load median": 2 };

export interface Bound {
  readonly name: string;
  readonly ratio: number;
  /** Least ratio that is good. */
  readonly least: number;
}

/** The ratios that can be formed from what one run measured. */
export function findBounds(figures: Figures): Bound[] {
  const rates = Object.entries(figures).filter(([, { unit }]) => unit === "GFLOP/s")
    .map(([spec, { value }]) => {
      const [op = "", shape = "", weights = "f32"] = spec.split(":");
      return { spec, op, shape, weights, value, sizes: shape.split("x").map(Number) };
    });
  const product = rates.filter(({ op }) => op === "matmul")
    .sort((a, b) => elementCount(b.sizes) - elementCount(a.sizes))[0];
  const ofOps = rates.flatMap(({ spec, op, shape, weights, value, sizes: [rows] }): Bound[] => {
    const share = CONV_SHARE[op];
    if (share !== undefined && product) {
      return [{ name: `${spec} to ${product.spec}`, ratio: value / product.value, least: share }];
    }
    const plain = figures[`${op}:${shape}`];
    if (!isWeightFormat(weights) || !plain || (rows! > 1 && rows! < MANY_ROWS)) return [];
    const least = QUANTISED_SHARE[rows === 1 ? "one" : "many"];
    return [{ name: `${spec} to f32`, ratio: value / plain.value, least }];
  });
  const ofFigures = Object.entries(figures).flatMap(([name, { value }]): Bound[] => {
    const program = /^(.+) in a loop$/.exec(name)?.[1];
    const kernels = figures[`${program} kernels`];
    if (kernels) {
      return [{
        name: `${program}: kernels to loop`,
        ratio: kernels.value / value,
        least: KERNEL_SHARE,
      }];
    }
    const most = SECONDS[name];
    return most === undefined
      ? []
      : [{ name: `${most} s to ${name}`, ratio: most / value, least: 1 }];
  });
  return [...ofOps, ...ofFigures];
}

/** Lines: what is compared, ratio, bound, met or not. */
export function boundsTable(bounds: readonly Bound[]): string[] {
  const rows = bounds.map(({ name, ratio, least }) => [
    name,
    ratio.toFixed(2),
    `at least ${least.toFixed(2)}`,
    ratio >= least ? "met" : "NOT MET",
  ]);
  return alignColumns(rows, [1]);
}
