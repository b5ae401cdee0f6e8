/** Splitting, reordering and merging axes, written as papers and einops write it. */
import { permute, type Tensor } from "../runtime/mod.ts";

/**
 * `"1 c (y i) (x j) -> 1 (y x) (i j c)"` cuts latents into patches of `i` by `j`, each a token. Axes in parentheses lie in
 * one dimension; of each pair one size may be omitted; 1 has no axis.
 * Source: Rogozhnikov 2022, "Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation".
 */
export function rearrange(
  x: Tensor,
  pattern: string,
  sizes: Readonly<Record<string, number>> = {},
): Tensor {
  const [from, to] = pattern.split("->").map(dimensionsOf);
  const axes = from!.flat();
  const moved = to?.flat() ?? [];
  const isSame = axes.length === new Set(axes).size && moved.length === axes.length &&
    moved.every((axis) => axes.includes(axis));
  if (!isSame) {
    throw new TypeError(
      `Cannot rearrange ${x} by "${pattern}": every axis is needed once on both sides`,
    );
  }
  if (from!.length !== x.rank) {
    throw new RangeError(
      `Cannot rearrange ${x} by "${pattern}": the pattern has ${from!.length} dimensions`,
    );
  }
  const known = new Map(Object.entries(sizes));
  for (const [i, names] of from!.entries()) {
    const open = names.filter((name) => !known.has(name));
    const product = names.reduce((size, name) => size * (known.get(name) ?? 1), 1);
    const size = x.dim(i) / product;
    if (open.length > 1 || !Number.isInteger(size) || (open.length === 0 && size !== 1)) {
      throw new RangeError(
        `Cannot rearrange ${x} by "${pattern}": dimension ${i} does not split into ${
          names.map((name) => `${name} = ${known.get(name) ?? "?"}`).join(", ") || 1
        }`,
      );
    }
    if (open[0] !== undefined) known.set(open[0], size);
  }
  const sizeOf = (names: readonly string[]) =>
    names.reduce((size, name) => size * known.get(name)!, 1);
  const split = x.reshape(...axes.map((axis) => known.get(axis)!));
  return permute(split, moved.map((axis) => axes.indexOf(axis))).reshape(...to!.map(sizeOf));
}

function dimensionsOf(side: string): string[][] {
  return (side.match(/\([^()]*\)|[^\s()]+/g) ?? [])
    .map((dimension) => (dimension.match(/[a-z]\w*/g) ?? []) as string[]);
}
