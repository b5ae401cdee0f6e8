/** Ratios that the project holds itself to: within one run, so that they hold on every machine. */

import { isWeightFormat } from "../../runtime/quantization/formats.ts";
import { specOf } from "../../report/op_cases.ts";
import type { Figures } from "./figures.ts";
import { alignColumns, type OpResult } from "./op_result.ts";

/** One ratio with its bound. */
export interface Gate {
  /** What is compared with what. */
  readonly name: string;
  readonly ratio: number;
  /** The bound, and the side of it that is good. */
  readonly bound: number;
  readonly side: "at least" | "at most" | "above";
}

/** Rate of a convolution, as a share of a square matrix product's. */
const CONV_SHARE = { conv2d: 0.6, conv3d: 0.5 } as const;
/** Rate of a quantised layer as a share of an f32 layer's, from this many rows on; with one row it must be faster. */
const QUANTISED_SHARE = 0.75;
const MANY_ROWS = 64;
/** A loop of whole programs over the sum of their kernels. */
const LOOP_RATIO = 1.05;

/** The ratios that can be formed from what was measured. */
export function findGates(ops: readonly OpResult[], figures: Figures): Gate[] {
  const own = ops.filter(({ variant }) => variant === undefined);
  return [...convGates(own), ...quantisedGates(own), ...loopGates(figures)];
}

/** Whether a ratio is on the good side of its bound. */
export function isMet({ ratio, bound, side }: Gate): boolean {
  if (side === "at most") return ratio <= bound;
  return side === "above" ? ratio > bound : ratio >= bound;
}

/** Lines: what is compared, ratio, bound, met or not. */
export function gateTable(gates: readonly Gate[]): string[] {
  if (gates.length === 0) return [];
  const rows = gates.map((gate) => [
    gate.name,
    gate.ratio.toFixed(2),
    `${gate.side} ${gate.bound.toFixed(2)}`,
    isMet(gate) ? "met" : "NOT MET",
  ]);
  return alignColumns(rows, ["start", "end", "start", "start"]);
}

/** Convolutions against the largest matrix product of the run. */
function convGates(ops: readonly OpResult[]): Gate[] {
  const products = ops.filter(({ op }) => op === "matmul");
  if (products.length === 0) return [];
  const work = ({ gflops, milliseconds }: OpResult) => gflops * milliseconds;
  const product = products.reduce((a, b) => work(a) >= work(b) ? a : b);
  return ops.flatMap((result) => {
    const { op } = result;
    if (op !== "conv2d" && op !== "conv3d") return [];
    return [{
      name: `${specOf(result)} to ${specOf(product)}`,
      ratio: result.gflops / product.gflops,
      bound: CONV_SHARE[op],
      side: "at least" as const,
    }];
  });
}

function quantisedGates(ops: readonly OpResult[]): Gate[] {
  return ops.flatMap((result) => {
    if (!isWeightFormat(result.weights)) return [];
    const plain = ops.find(({ op, shape, weights }) =>
      op === result.op && shape === result.shape && weights === "f32"
    );
    const rows = Number(result.shape.split("x")[0]);
    if (!plain || (rows > 1 && rows < MANY_ROWS)) return [];
    return [{
      name: `${specOf(result)} to f32`,
      ratio: result.gflops / plain.gflops,
      ...(rows === 1
        ? { bound: 1, side: "above" as const }
        : { bound: QUANTISED_SHARE, side: "at least" as const }),
    }];
  });
}

function loopGates(figures: Figures): Gate[] {
  return Object.entries(figures).flatMap(([name, { value }]) => {
    const program = /^(.+) in a loop$/.exec(name)?.[1];
    const kernels = figures[`${program} kernels`];
    if (program === undefined || !kernels) return [];
    return [{
      name: `${program}: loop to sum of kernels`,
      ratio: value / kernels.value,
      bound: LOOP_RATIO,
      side: "at most" as const,
    }];
  });
}
