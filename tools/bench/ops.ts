/**
 * Times our ops on the adapter at hand. Turns are interleaved over all rows and the best of them counts, because
 * machines are rarely idle for long.
 */

import { openDevice } from "../../runtime/mod.ts";
import { parseCase } from "../../report/op_cases.ts";
import { type Ceilings, highest, measureCeilings } from "../../report/ceilings.ts";
import { type MeasuredOp, type OpResult, opResult } from "./op_result.ts";
import { variantsOf } from "../../report/loaded_op.ts";
import { type OwnOp, prepareOwnOp } from "./own_op.ts";
import { Turns } from "./turns.ts";

const FORMATS = ["f32", "f16", "bf16", "q8_0", "q5_0", "q4_0", "q4_k", "q5_k", "q6_k", "f8_e4m3"];

/**
 * Layers of the bundled model and of large ones, a square matrix product as the measure of convolutions, the usual formats
 * of weights with one row, some and many; decoders' convolutions: two of the bundled one, one of the usual width.
 */
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

/** How long to measure. */
interface OpsOptions {
  /** Every variant of an op that takes the sizes, not only the one that the adapter would get. */
  readonly allVariants?: boolean;
  /** Turns of each; the best one counts. */
  readonly rounds?: number;
  /** Least time of one turn, in milliseconds. */
  readonly turnMs?: number;
  /** After this time no further round but the first is begun; in milliseconds. */
  readonly limitMs?: number;
}

/** Our ops, and what they are measured against. */
interface OpsRun {
  readonly ceiling: Ceilings;
  readonly ops: readonly OpResult[];
}

interface Row extends Omit<MeasuredOp, "milliseconds"> {
  readonly own: OwnOp;
  readonly turns: Turns;
}

/**
 * Times ops.
 *
 * @param specs `OP:SIZExSIZE…[:FORMAT]`, a default set when empty
 * @throws {RangeError} when a spec is none
 */
export async function benchOps(
  specs: readonly string[],
  log: (line: string) => void,
  { allVariants = false, rounds = 5, turnMs = 40, limitMs = 45_000 }: OpsOptions = {},
): Promise<OpsRun> {
  const cases = (specs.length > 0 ? specs : DEFAULT_SPECS).map(parseCase);
  const device = await openDevice();
  const start = performance.now();
  const rows: Row[] = [];
  try {
    const before = await measureCeilings(device);
    for (const op of cases) {
      for (const variant of allVariants ? variantsOf(op.op) : [undefined]) {
        const own = await prepare(
          () => prepareOwnOp(device, op, variant ? { variant } : {}),
          variant,
        );
        if (!own) continue;
        await own.run(1); // Compiles what is compiled late.
        const turns = new Turns(own);
        await turns.calibrate(turnMs);
        const deviceClass = device.target.schedule;
        rows.push({ op, variant, deviceClass, kernels: own.kernels, own, turns });
      }
    }
    log(`ops: ${rows.length} rows after ${((performance.now() - start) / 1000).toFixed(0)} s`);
    for (let round = 0; round < rounds; round++) {
      if (round >= 1 && performance.now() - start > limitMs) break;
      for (const { turns } of rows) await turns.take();
    }
    const ceiling = highest(before, await measureCeilings(device));
    const ops = rows.map(({ turns, ...row }) =>
      opResult({ ...row, milliseconds: turns.best }, ceiling)
    );
    return { ceiling, ops };
  } finally {
    for (const { own } of rows) own.destroy();
    device.destroy();
  }
}

/** Nothing when a forced variant does not take the case. */
async function prepare(
  work: () => Promise<OwnOp>,
  variant: string | undefined,
): Promise<OwnOp | undefined> {
  try {
    return await work();
  } catch (error) {
    if (variant && error instanceof RangeError) return undefined;
    throw error;
  }
}
