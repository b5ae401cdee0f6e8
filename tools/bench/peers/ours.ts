/** Our own ops as a contender. */

import { type Device, openDevice } from "../../../runtime/mod.ts";
import { type OwnOp, prepareOwnOp } from "../own_op.ts";
import type { OpCase } from "./cases.ts";
import type { Contender } from "./contender.ts";

/** Our ops on an open device. */
export interface Ours extends Contender {
  readonly device: Device;
  prepare(op: OpCase, inputs: readonly Float32Array[]): Promise<OwnOp>;
}

/**
 * Opens the adapter that denoise would take.
 *
 * @throws {NoAdapterError} when there is none
 */
export async function openOurs(): Promise<Ours> {
  const device = await openDevice();
  return {
    name: "denoise",
    device,
    prepare: (op, inputs) => prepareOwnOp(device, op, { inputs }),
    close: () => device.destroy(),
  };
}
