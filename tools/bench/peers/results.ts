/** What a comparison gives: the record for files, and the table for people. */

import type { OpCase } from "./cases.ts";
import { type Ceilings, ceilingShare } from "../ceilings.ts";
import type { Measurement } from "./measure.ts";

/** One op at one size, as `--json` writes it. */
export interface OpResult {
  /** `matmul`, `linear`, `attention` or `conv2d`. */
  readonly op: string;
  /** `32x640x160`. */
  readonly shape: string;
  /** How the weights were stored. */
  readonly weights: "f32";
  /** Class of kernels that the adapter got. */
  readonly schedule: "cpu" | "gpu";
  /** The kernels of one call. */
  readonly kernels: readonly string[];
  /** Our arithmetic operations per nanosecond. */
  readonly gflops: number;
  /** Bytes per nanosecond, when every input and the result move once. */
  readonly gbps: number;
  /** Share of what the device can do at most, by arithmetic or by memory, whichever bounds the op. */
  readonly ceiling_share: number;
  /** GFLOP/s of the peers on the same adapter. */
  readonly peers: Readonly<Record<string, number>>;
  /** GFLOP/s of what runs elsewhere: torch on the CPU. */
  readonly yardsticks: Readonly<Record<string, number>>;
  /** Largest difference of each one's result to ours, as a share of the largest element. */
  readonly max_errors: Readonly<Record<string, number>>;
  /** Who has no figure, and why. */
  readonly left_out: Readonly<Record<string, string>>;
}

/** A whole comparison. */
export interface PeerRun {
  readonly ceiling: Ceilings;
  readonly ops: readonly OpResult[];
  /** Who could not be asked at all, and why. */
  readonly left_out: Readonly<Record<string, string>>;
}

/** What was measured of an op, before the ceiling is known. */
export interface MeasuredOp {
  readonly op: OpCase;
  readonly schedule: "cpu" | "gpu";
  readonly kernels: readonly string[];
  /** Ours first. */
  readonly measurements: readonly Measurement[];
}

/**
 * The record of an op.
 *
 * @param yardsticks names of the contenders that do not run on the adapter
 */
export function opResult(
  { op, schedule, kernels, measurements }: MeasuredOp,
  ceiling: Ceilings,
  yardsticks: readonly string[],
): OpResult {
  const milliseconds = ownTime(measurements);
  const others = measurements.slice(1);
  const rates = (belongs: (name: string) => boolean) =>
    entries(
      others,
      (each) =>
        each.milliseconds !== undefined && belongs(each.name)
          ? rounded(op.flops / each.milliseconds / 1e6)
          : undefined,
    );
  return {
    op: op.op,
    shape: op.shape,
    weights: "f32",
    schedule,
    kernels,
    gflops: rounded(op.flops / milliseconds / 1e6),
    gbps: rounded(op.bytes / milliseconds / 1e6),
    ceiling_share: rounded(ceilingShare({ ...op, milliseconds }, ceiling)),
    peers: rates((name) => !yardsticks.includes(name)),
    yardsticks: rates((name) => yardsticks.includes(name)),
    max_errors: entries(others, (each) => each.maxError && rounded(each.maxError)),
    left_out: entries(others, (each) => each.reason),
  };
}

/** How many times the fastest peer's rate ours is; undefined without peers. */
export function ratioToFasterPeer({ gflops, peers }: OpResult): number | undefined {
  const rates = Object.values(peers);
  return rates.length === 0 ? undefined : gflops / Math.max(...rates);
}

/**
 * The table of a comparison.
 *
 * @returns lines: op, our rate and share of the ceiling, every peer's rate, the ratio to the faster one
 */
export function peerTable({ ops, ceiling, left_out }: PeerRun): string[] {
  const names = (pick: (result: OpResult) => object) => [
    ...new Set(ops.flatMap((result) => Object.keys(pick(result)))),
  ];
  const peers = names((result) => result.peers);
  const yardsticks = names((result) => result.yardsticks);
  const header = ["GFLOP/s", "denoise", "of ceiling", ...peers, "to the faster", ...yardsticks];
  const rows = ops.map((result) => {
    const ratio = ratioToFasterPeer(result);
    return [
      `${result.op} ${result.shape}`,
      rate(result.gflops),
      `${(100 * result.ceiling_share).toFixed(0)} %`,
      ...peers.map((name) => rate(result.peers[name])),
      ratio === undefined ? "" : `x${ratio.toFixed(2)}`,
      ...yardsticks.map((name) => rate(result.yardsticks[name])),
    ];
  });
  const table = [header, ...rows];
  const widths = header.map((_, i) => Math.max(...table.map((row) => row[i]!.length)));
  const missing = [
    ...Object.entries(left_out).map(([name, reason]) => `${name}: ${reason}`),
    ...ops.flatMap((result) =>
      Object.entries(result.left_out).map(([name, reason]) =>
        `${name}, ${result.op} ${result.shape}: ${reason}`
      )
    ),
  ];
  return [
    ...table.map((row) =>
      row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))
        .join("  ").trimEnd()
    ),
    `ceiling: ${rate(ceiling.flopsPerSecond / 1e9)} GFLOP/s, ${
      rate(ceiling.bytesPerSecond / 1e9)
    } GB/s`,
    ...missing.map((line) => `left out: ${line}`),
  ];
}

function ownTime(measurements: readonly Measurement[]): number {
  return measurements[0]!.milliseconds!;
}

function entries<T>(
  measurements: readonly Measurement[],
  pick: (measurement: Measurement) => T | undefined,
): Record<string, T> {
  const picked = measurements.map((each) => [each.name, pick(each)] as const);
  return Object.fromEntries(picked.filter((entry): entry is [string, T] => entry[1] !== undefined));
}

function rate(value: number | undefined): string {
  if (value === undefined) return "";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
