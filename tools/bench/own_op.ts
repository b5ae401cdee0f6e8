/** Our own ops, to be timed by turns. */

import type { OpCase } from "../../report/op_cases.ts";
import { LoadedOp } from "../../report/loaded_op.ts";
import type { Device, Target } from "../../runtime/mod.ts";
import type { Repeatable } from "./turns.ts";

/** Work of one run by class of adapter: some milliseconds, so that the cost of a submit does not count. */
const RUN_FLOPS: Readonly<Record<Target["schedule"], number>> = { cpu: 5e7, gpu: 5e10 };
/** How often one run computes a small op at most. */
const MAX_COPIES = 1024;

/** An op at one size whose inputs are on the device. */
export interface OwnOp extends Repeatable {
  /** Names of the kernels of one call, in order. */
  readonly kernels: readonly string[];
  /** The result of one call. */
  result(): Promise<Float32Array>;
  /** Frees what it holds. */
  destroy(): void;
}

/**
 * Brings an op to the device.
 *
 * @param variant forces one of `variantsOf`; the adapter's own choice when left out
 * @param inputs made up when left out
 * @throws {RangeError} when the variant does not take the case
 */
export async function prepareOwnOp(
  device: Device,
  op: OpCase,
  { variant, inputs }: { variant?: string; inputs?: readonly Float32Array[] } = {},
): Promise<OwnOp> {
  const bench = new LoadedOp(device, op, inputs);
  try {
    const { kernels, program, destroy } = await bench.prepare(variant);
    const wanted = Math.ceil(RUN_FLOPS[device.target.schedule] / op.flops);
    const copies = Math.max(1, Math.min(MAX_COPIES, wanted));
    const submit = (times: number) => {
      for (let i = 0; i < program.submits.length; i++) {
        device.submit([program.encode(i, times)]);
      }
    };
    return {
      kernels,
      copies,
      async run(times) {
        for (let i = 0; i < times; i++) submit(copies);
        await device.wait();
      },
      result() {
        submit(1);
        return bench.result();
      },
      destroy() {
        destroy();
        bench.destroy();
      },
    };
  } catch (error) {
    bench.destroy();
    throw error;
  }
}
