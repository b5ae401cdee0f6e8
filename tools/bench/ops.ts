/** Times our ops on the adapter at hand, by turns: machines are rarely idle for long. */

import { type Ceilings, ceilingShare, measureCeilings } from "../../report/ceilings.ts";
import { flops, ms, percent, rate } from "../../report/cells.ts";
import { LoadedOp, type OpRun, parseCase, specOf, variantsOf } from "../../report/loaded_op.ts";
import { opRate } from "../../report/report_reader.ts";
import type { TimedOp } from "../../report/types.ts";
import type { Device } from "../../runtime/mod.ts";
import { Stopwatch } from "../../runtime/program/stopwatch.ts";
import { alignColumns, type Figures } from "./history.ts";

const FORMATS = ["f32", "f16", "bf16", "q8_0", "q5_0", "q4_0", "q4_k", "q5_k", "q6_k", "f8_e4m3"];

/** Layers of the bundled and of large models, formats with one, some and many rows, and convolutions of decoders. */
export const DEFAULT_SPECS: readonly string[] = [
  "matmul:512x512x512",
  "matmul:1024x1024x1024",
  "linear:32x640x160",
  "linear:72x160x640",
  ...["1x2048x2048", "64x2048x2048", "1024x1024x1024"].flatMap((sizes) =>
    FORMATS.map((format) => `linear:${sizes}:${format}`)
  ),
  "attention:16x5x32",
  "attention:36x5x32",
  "attention:1024x24x128",
  "conv2d:64x64x40x40",
  "conv2d:128x128x20x20",
  "conv2d:64x64x128x128",
  "conv3d:3x32x32x40x40",
  "conv3d:3x32x32x96x96",
  "rms_norm:1024x1536",
  "layer_norm:1024x1536",
  "l2_norm:4096x96",
  "group_norm:4096x128",
  "softmax:1280x256",
];

/** Turns of each row; the best one counts. */
const ROUNDS = 5;
/** Least time of a turn, and the time after which no further round begins, in milliseconds. */
const TURN_MS = 40;
const LIMIT_MS = 45_000;

interface Row extends TimedOp {
  readonly run: OpRun;
}

export interface OpsRun {
  readonly ceilings: Ceilings;
  /** The adapter's own choice has an empty name as variant. */
  readonly ops: readonly TimedOp[];
}

/** `specs` are `OP:SIZExSIZE…[:FORMAT]`. */
export async function benchOps(
  device: Device,
  specs: readonly string[],
  allVariants: boolean,
  log: (line: string) => void,
): Promise<OpsRun> {
  const cases = specs.map(parseCase);
  using stopwatch = await Stopwatch.open(device);
  using held = new DisposableStack();
  const rows: Row[] = [];
  const ceilings = await measureCeilings(device, stopwatch);
  for (const op of cases) {
    const inputs = held.use(new LoadedOp(device, op));
    for (const variant of allVariants ? variantsOf(op.op) : [""]) {
      const run = held.use(await prepare(inputs, variant));
      if (!run) continue;
      const { kernels } = run;
      const { flops, bytes } = op;
      rows.push({ spec: specOf(op), variant, kernels, ms: Infinity, flops, bytes, run });
    }
  }
  log(`ops: ${rows.length} rows, ${ROUNDS} times`);
  const start = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0 && performance.now() - start > LIMIT_MS) break;
    for (const [i, row] of rows.entries()) {
      const ms = await stopwatch.time(row.run.program, { leastMs: TURN_MS, rounds: 1 });
      rows[i] = { ...row, ms: Math.min(row.ms, ms) };
    }
  }
  const ops = rows.map(({ run: _, ...op }) => ({ ...op, share: ceilingShare(op, ceilings) }));
  return { ceilings, ops };
}

/** Nothing when a forced variant does not take the case. */
async function prepare(op: LoadedOp, variant: string): Promise<OpRun | undefined> {
  try {
    return await op.prepare(variant || undefined);
  } catch (error) {
    if (variant && error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Rates for the history; variants that were only tried have none. */
export function opFigures(ops: readonly TimedOp[]): Figures {
  return Object.fromEntries(
    ops.filter(({ variant }) => variant === "").map(({ spec, flops, ms }) => [
      spec,
      { value: flops / ms / 1e6, unit: "GFLOP/s" },
    ]),
  );
}

/** Lines: op, time of a call, rate, share of the ceiling, variant and the kernel that does the work; the ceilings. */
export function opTable({ ops, ceilings }: OpsRun): string[] {
  const { flopsPerSecond, matrixFlopsPerSecond, bytesPerSecond } = ceilings;
  const matrix = matrixFlopsPerSecond ? `, on matrix units ${flops(matrixFlopsPerSecond)}` : "";
  const rows = ops.map((op) => [
    op.spec,
    ms(op.ms)!,
    opRate(op),
    percent(op.share),
    // What comes before the last kernel prepares its inputs.
    (op.variant && `${op.variant}: `) + (op.kernels.at(-1) ?? ""),
  ]);
  return [
    ...alignColumns([["", "time", "rate", "of ceiling", "kernel"], ...rows], [1, 2, 3]),
    `ceiling: ${flops(flopsPerSecond)}${matrix}, ${rate(bytesPerSecond)}`,
  ];
}
