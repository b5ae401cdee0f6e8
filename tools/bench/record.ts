/** What `--json` writes. */

import type { Ceilings } from "./ceilings.ts";
import type { Figures } from "./figures.ts";
import type { BenchRun } from "./history.ts";
import type { OpResult, PeerRun } from "./peers/results.ts";

/** A run as the history has it and, in full, what was compared with peers. */
export interface BenchRecord extends BenchRun {
  /** With what the device can do at most, where that was measured. */
  readonly device: BenchRun["device"] & {
    readonly ceiling?: { readonly gflops: number; readonly gbps: number };
  };
  /** Empty without `--peers`. */
  readonly ops: readonly OpResult[];
  /** The figures of the models; empty without `--models`. */
  readonly models: readonly { name: string; value: number; unit: string }[];
}

/** Ceilings in the units of ops, four digits of each. */
function ceilingRecord({ flopsPerSecond, bytesPerSecond }: Ceilings) {
  const round = (value: number) => Number((value / 1e9).toPrecision(4));
  return { gflops: round(flopsPerSecond), gbps: round(bytesPerSecond) };
}

/** Puts the record of a run together. */
export function benchRecord(
  run: BenchRun,
  comparison: PeerRun | undefined,
  models: Figures,
): BenchRecord {
  return {
    ...run,
    device: { ...run.device, ...(comparison && { ceiling: ceilingRecord(comparison.ceiling) }) },
    ops: comparison?.ops ?? [],
    models: Object.entries(models).map(([name, figure]) => ({ name, ...figure })),
  };
}

/** The figures of a comparison that the history keeps: ours, and the faster peer's. */
export function peerFigures({ ops }: PeerRun): Figures {
  return Object.fromEntries(ops.flatMap(({ op, shape, gflops, peers }) => {
    const name = `${op}:${shape}`;
    const faster = Math.max(...Object.values(peers));
    const figures = [[name, { value: gflops, unit: "GFLOP/s" as const }] as const];
    if (Number.isFinite(faster)) {
      figures.push([`${name} by the faster peer`, { value: faster, unit: "GFLOP/s" }]);
    }
    return figures;
  }));
}
