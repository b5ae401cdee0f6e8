/** Changes of several modules whose rows a file joins, cut into those of each. */
import type { LoraTensor, Rows, WeightChange } from "../types.ts";

/** Rows of a change and the rows of our module that they are for; of all rows where the second is left out. */
interface RowCut {
  readonly theirs: Rows;
  readonly ours?: Rows;
}

/**
 * The part of a change that is for some of its rows. A Kronecker product may be cut inside of a block, so it may give
 * several.
 */
export function cutRows(
  change: WeightChange,
  total: number,
  { theirs, ours }: RowCut,
): WeightChange[] {
  const [start, count] = theirs;
  if (start === 0 && count === total) return [change];
  const placed = <T>(value: T) => (ours ? { ...value, rows: ours } : value);
  switch (change.kind) {
    case "low-rank":
      return [placed({ ...change, up: sliceRows(change.up, start, count) })];
    case "whole":
      return [placed({ ...change, delta: sliceRows(change.delta, start, count) })];
    case "hadamard": {
      const [first, second] = change.up;
      return [
        placed({
          ...change,
          up: [sliceRows(first, start, count), sliceRows(second, start, count)] as const,
        }),
      ];
    }
    case "kronecker":
      return cutKronecker(change, total, start, count, ours?.[0] ?? 0);
  }
}

/** Rows of a tensor, in the same memory. */
export function sliceRows(tensor: LoraTensor, start: number, count: number): LoraTensor {
  const { shape, bytes } = tensor;
  const [rows = 1, ...others] = shape;
  if (start === 0 && count === rows) return tensor;
  const row = bytes.byteLength / rows;
  return {
    ...tensor,
    shape: [count, ...others],
    bytes: bytes.subarray(start * row, (start + count) * row),
  };
}

export function concatRows(tensors: readonly LoraTensor[]): LoraTensor {
  const [first, ...others] = tensors;
  if (others.length === 0) return first!;
  const bytes = new Uint8Array(
    new SharedArrayBuffer(tensors.reduce((sum, tensor) => sum + tensor.bytes.byteLength, 0)),
  );
  let at = 0;
  for (const tensor of tensors) {
    bytes.set(tensor.bytes, at);
    at += tensor.bytes.byteLength;
  }
  const rows = tensors.reduce((sum, { shape }) => sum + (shape[0] ?? 1), 0);
  return { ...first!, shape: [rows, ...first!.shape.slice(1)], bytes };
}

/**
 * Each row of the first factor makes a block of as many rows as the second has: what is left of a block at the start,
 * whole blocks, what is left of one at the end.
 */
function cutKronecker(
  change: WeightChange & { readonly kind: "kronecker" },
  total: number,
  start: number,
  count: number,
  ourStart: number,
): WeightChange[] {
  const [first, second] = change.factors;
  const height = total / first[0]!.shape[0]!;
  const cuts: WeightChange[] = [];
  for (let row = start; row < start + count;) {
    const inBlock = row % height;
    const left = start + count - row;
    const isWhole = inBlock === 0 && left >= height;
    const blocks = isWhole ? Math.floor(left / height) : 1;
    const taken = isWhole ? blocks * height : Math.min(height - inBlock, left);
    const factors = [
      sliceFactor(first, Math.floor(row / height), blocks),
      isWhole ? second : sliceFactor(second, inBlock, taken),
    ] as const;
    cuts.push({ ...change, factors, rows: [ourStart + row - start, taken] });
    row += taken;
  }
  return cuts;
}

/** Rows of a factor, which may be the product of two. */
function sliceFactor(
  [first, ...others]: readonly LoraTensor[],
  start: number,
  count: number,
): readonly LoraTensor[] {
  return [sliceRows(first!, start, count), ...others];
}
