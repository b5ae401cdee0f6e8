/** What a comparison gives: the record for files, and the table for people. */

import { type OpCase, specOf } from "../../../report/op_cases.ts";
import type { Ceilings } from "../../../report/ceilings.ts";
import {
  alignColumns,
  ceilingLine,
  formatRate,
  formatShare,
  type OpResult,
  opResult,
  rounded,
} from "../op_result.ts";
import type { Measurement } from "./measure.ts";

/** A whole comparison. */
export interface PeerRun {
  readonly ceiling: Ceilings;
  readonly ops: readonly OpResult[];
  /** Who could not be asked at all, and why. */
  readonly left_out: Readonly<Record<string, string>>;
}

/** What was measured of an op, before the ceiling is known. */
export interface ComparedOp {
  readonly op: OpCase;
  readonly deviceClass: "cpu" | "gpu";
  readonly kernels: readonly string[];
  /** Ours first. */
  readonly measurements: readonly Measurement[];
}

/**
 * The record of an op.
 *
 * @param yardsticks names of the contenders that do not run on the adapter
 */
export function comparedResult(
  { measurements, ...measured }: ComparedOp,
  ceiling: Ceilings,
  yardsticks: readonly string[],
): OpResult {
  const [own, ...others] = measurements;
  const rates = (belongs: (name: string) => boolean) =>
    entries(
      others,
      ({ name, milliseconds }) =>
        milliseconds !== undefined && belongs(name)
          ? rounded(measured.op.flops / milliseconds / 1e6)
          : undefined,
    );
  return {
    ...opResult({ ...measured, milliseconds: own!.milliseconds! }, ceiling),
    peers: rates((name) => !yardsticks.includes(name)),
    yardsticks: rates((name) => yardsticks.includes(name)),
    max_errors: entries(
      others,
      ({ maxError }) => maxError === undefined ? undefined : rounded(maxError),
    ),
    left_out: entries(others, ({ reason }) => reason),
  };
}

/** How many times as fast as the faster peer ours is; undefined without peers. */
export function ratioToFasterPeer({ gflops, peers }: OpResult): number | undefined {
  const rates = Object.values(peers);
  return rates.length === 0 ? undefined : gflops / Math.max(...rates);
}

/**
 * The table of a comparison.
 *
 * @returns lines: op, our time, rates and share of the ceiling, every peer's rate, the ratio to the faster one
 */
export function peerTable({ ops, ceiling, left_out }: PeerRun): string[] {
  const names = (pick: (result: OpResult) => object) => [
    ...new Set(ops.flatMap((result) => Object.keys(pick(result)))),
  ];
  const peers = names((result) => result.peers);
  const yardsticks = names((result) => result.yardsticks);
  const header = [
    "GFLOP/s",
    "ms",
    "GB/s",
    "of ceiling",
    "denoise",
    ...peers,
    "to the faster",
    ...yardsticks,
  ];
  const optional = (value: number | undefined) => value === undefined ? "" : formatRate(value);
  const rows = ops.map((result) => {
    const ratio = ratioToFasterPeer(result);
    return [
      specOf(result),
      formatRate(result.milliseconds),
      formatRate(result.gbps),
      formatShare(result.ceiling_share),
      formatRate(result.gflops),
      ...peers.map((name) => optional(result.peers[name])),
      ratio === undefined ? "" : `x${ratio.toFixed(2)}`,
      ...yardsticks.map((name) => optional(result.yardsticks[name])),
    ];
  });
  const missing = [
    ...Object.entries(left_out).map(([name, reason]) => `${name}: ${reason}`),
    ...ops.flatMap((result) =>
      Object.entries(result.left_out).map(([name, reason]) =>
        `${name}, ${specOf(result)}: ${reason}`
      )
    ),
  ];
  return [
    ...alignColumns([header, ...rows], header.map((_, i) => i === 0 ? "start" : "end")),
    ceilingLine(ceiling),
    ...missing.map((line) => `left out: ${line}`),
  ];
}

function entries<T>(
  measurements: readonly Measurement[],
  pick: (measurement: Measurement) => T | undefined,
): Record<string, T> {
  const picked = measurements.map((each) => [each.name, pick(each)] as const);
  return Object.fromEntries(picked.filter((entry): entry is [string, T] => entry[1] !== undefined));
}
