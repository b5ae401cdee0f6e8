/** What `--json` writes. */

import { specOf } from "../../report/op_cases.ts";
import type { Ceilings } from "../../report/ceilings.ts";
import type { Figures } from "./figures.ts";
import { findGates, type Gate, isMet } from "./gates.ts";
import type { BenchRun } from "./history.ts";
import { type OpResult, rounded } from "./op_result.ts";

/** A run as the history has it and, in full, what was measured of ops and models. */
interface BenchRecord extends BenchRun {
  /** With what the device can do at most, where that was measured: arithmetic and bytes per nanosecond. */
  readonly device: BenchRun["device"] & {
    readonly ceiling?: { readonly gflops: number; readonly gbps: number };
  };
  /** Empty without `--ops` and `--peers`. */
  readonly ops: readonly OpResult[];
  /** Figures of the models and their programs; empty without `--models` and `--kernels`. */
  readonly models: readonly {
    readonly name: string;
    readonly value: number;
    readonly unit: string;
  }[];
  /** Ratios with their bounds. */
  readonly gates: readonly (Gate & { readonly met: boolean })[];
}

/** What a run measured beyond its figures. */
export interface Measured {
  readonly ops: readonly OpResult[];
  readonly ceiling: Ceilings | undefined;
  /** Figures of models and their programs. */
  readonly models: Figures;
}

/** Puts the record of a run together. */
export function benchRecord(run: BenchRun, { ops, ceiling, models }: Measured): BenchRecord {
  return {
    ...run,
    device: {
      ...run.device,
      ...(ceiling && {
        ceiling: {
          gflops: rounded(ceiling.flopsPerSecond / 1e9),
          gbps: rounded(ceiling.bytesPerSecond / 1e9),
        },
      }),
    },
    ops,
    models: Object.entries(models).map(([name, figure]) => ({ name, ...figure })),
    gates: findGates(ops, run.results).map((gate) => ({
      ...gate,
      ratio: rounded(gate.ratio),
      met: isMet(gate),
    })),
  };
}

/** Between the op and the name in the figure of a comparison. */
export const COMPARED_BY = " by ";

/** How figures of a comparison name us. */
export const OURSELVES = "denoise";

/** The figures of our own ops that the history keeps; variants that were only tried are none. */
export function opFigures(ops: readonly OpResult[]): Figures {
  return Object.fromEntries(
    ops.filter(({ variant }) => variant === undefined).map((result) => [
      specOf(result),
      { value: result.gflops, unit: "GFLOP/s" } as const,
    ]),
  );
}

/** The figures of a comparison that the history keeps: everybody's rate, as `OP:SIZES by NAME`. */
export function peerFigures(ops: readonly OpResult[]): Figures {
  return Object.fromEntries(
    ops.flatMap((result) =>
      Object.entries({ [OURSELVES]: result.gflops, ...result.peers, ...result.yardsticks })
        .map(([name, value]) => [
          specOf(result) + COMPARED_BY + name,
          { value, unit: "GFLOP/s" } as const,
        ])
    ),
  );
}
