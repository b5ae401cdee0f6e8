/** What was measured of an op, as `--json` writes it and as tables show it. */

import type { Target } from "../../runtime/mod.ts";
import { type OpCase, specOf } from "../../report/op_cases.ts";
import { type Ceilings, ceilingShare } from "../../report/ceilings.ts";

/** One op at one size. */
export interface OpResult {
  /** `linear`, `attention`, … */
  readonly op: string;
  /** `32x640x160`. */
  readonly shape: string;
  /** How the weights were stored; `f32` where the op has none. */
  readonly weights: string;
  /** The kernel that did the work: the variant, its tile and what is fused into it. */
  readonly schedule: string;
  /** The variant that was asked for; not there where the adapter chose. */
  readonly variant?: string;
  /** Class of kernels that the adapter gets. */
  readonly device_class: Target["schedule"];
  /** All kernels of one call, in order. */
  readonly kernels: readonly string[];
  /** Best time of one call. */
  readonly milliseconds: number;
  /** Our arithmetic operations per nanosecond. */
  readonly gflops: number;
  /** Bytes per nanosecond, when every input and the result move once. */
  readonly gbps: number;
  /** Share of what the device can do at most, by arithmetic or by memory, whichever bounds the op. */
  readonly ceiling_share: number;
  /** GFLOP/s of the peers on the same adapter; empty where none was asked. */
  readonly peers: Readonly<Record<string, number>>;
  /** GFLOP/s of what runs elsewhere: torch on the CPU. */
  readonly yardsticks: Readonly<Record<string, number>>;
  /** Largest difference of each one's result to ours, as a share of the largest element. */
  readonly max_errors: Readonly<Record<string, number>>;
  /** Who has no figure, and why. */
  readonly left_out: Readonly<Record<string, string>>;
}

/** What was measured of an op, before the ceiling is known. */
export interface MeasuredOp {
  readonly op: OpCase;
  readonly variant?: string | undefined;
  readonly deviceClass: Target["schedule"];
  readonly kernels: readonly string[];
  readonly milliseconds: number;
}

/** The record of an op that nobody else was asked for. */
export function opResult(
  { op, variant, deviceClass, kernels, milliseconds }: MeasuredOp,
  ceiling: Ceilings,
): OpResult {
  return {
    op: op.op,
    shape: op.shape,
    weights: op.weights,
    // What comes before the last kernel prepares its inputs.
    schedule: kernels.at(-1) ?? "",
    ...(variant !== undefined && { variant }),
    device_class: deviceClass,
    kernels,
    milliseconds: rounded(milliseconds),
    gflops: rounded(op.flops / milliseconds / 1e6),
    gbps: rounded(op.bytes / milliseconds / 1e6),
    ceiling_share: rounded(ceilingShare({ ...op, milliseconds }, ceiling)),
    peers: {},
    yardsticks: {},
    max_errors: {},
    left_out: {},
  };
}

/**
 * The table of our own ops.
 *
 * @returns lines: op, time of a call, both rates, share of the ceiling, kernel
 */
export function opTable(results: readonly OpResult[], ceiling: Ceilings): string[] {
  const header = ["", "ms", "GFLOP/s", "GB/s", "of ceiling", "kernel"];
  const rows = results.map((result) => [
    specOf(result),
    formatRate(result.milliseconds),
    formatRate(result.gflops),
    formatRate(result.gbps),
    formatShare(result.ceiling_share),
    (result.variant ? `${result.variant}: ` : "") + result.schedule,
  ]);
  return [
    ...alignColumns([header, ...rows], ["start", "end", "end", "end", "end", "start"]),
    ceilingLine(ceiling),
  ];
}

/** The ceilings, for people. */
export function ceilingLine({ flopsPerSecond, bytesPerSecond }: Ceilings): string {
  return `ceiling: ${formatRate(flopsPerSecond / 1e9)} GFLOP/s, ${
    formatRate(bytesPerSecond / 1e9)
  } GB/s`;
}

/** Pads the cells of a table, two spaces between columns. */
export function alignColumns(
  table: readonly (readonly string[])[],
  sides: readonly ("start" | "end")[],
): string[] {
  const widths = table[0]!.map((_, i) => Math.max(...table.map((row) => row[i]!.length)));
  return table.map((row) =>
    row.map((cell, i) => sides[i] === "start" ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))
      .join("  ").trimEnd()
  );
}

/** A rate or a time with three digits. */
export function formatRate(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** A share as a percentage. */
export function formatShare(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** Four digits, as files have them. */
export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
