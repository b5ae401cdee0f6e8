/**
 * Names and shapes of published checkpoints without their numbers, and a device that is large enough for them.
 */
import { BASELINE_TARGET, type Shape, type Target } from "../../runtime/mod.ts";

/** Shapes by the names of tensors. */
export type Shapes = Record<string, Shape>;

const MOST = 2 ** 31 - 4;

/** A device whose buffers hold any of their tensors. */
export const LARGE: Target = {
  ...BASELINE_TARGET,
  limits: { ...BASELINE_TARGET.limits, maxBindingBytes: MOST, maxBufferBytes: MOST },
};

/** Weight and bias of a layer. */
export function layer(name: string, rows: number, columns: number): Shapes {
  return { [`${name}.weight`]: [rows, columns], [`${name}.bias`]: [rows] };
}

/** The tensors of blocks that are alike. */
export function repeated<Tensors extends object = Shapes>(
  count: number,
  of: (i: number) => Tensors,
): Tensors {
  return Object.assign({}, ...Array.from({ length: count }, (_, i) => of(i)));
}
