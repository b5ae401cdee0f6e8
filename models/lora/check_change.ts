/** That the parts of a change have the sizes of the module that it is for. */
import { elementCount, formatShape } from "../../runtime/mod.ts";
import { matrixShape } from "./elements.ts";
import type { AdaptableModule, LoraTensor, ModuleChange, WeightChange } from "./types.ts";

/**
 * Checks shapes; numbers are not looked at.
 *
 * @throws {RangeError} naming the module and what does not fit
 */
export function checkChange(change: ModuleChange, module: AdaptableModule): void {
  const [rows] = module.shape as [number];
  const columns = elementCount(module.shape) / rows;
  for (const part of change.weight) {
    const [start, count] = part.rows ?? [0, rows];
    const size = sizeOf(part);
    if (start < 0 || start + count > rows || size?.[0] !== count || size[1] !== columns) {
      throw misfit(
        module,
        `rows ${start} to ${start + count} of its weight get a change of ${
          size ? formatShape(size) : "factors that do not fit each other"
        }`,
      );
    }
  }
  const { bias, magnitude } = change;
  if (bias && !(module.hasBias && elementCount(bias.shape) === rows)) {
    throw misfit(
      module,
      `its bias gets a change of ${elementCount(bias.shape)} elements, it has ${
        module.hasBias ? rows : "none"
      }`,
    );
  }
  if (magnitude) {
    const { over, lengths } = magnitude;
    const expected = over === "rows" ? rows : module.shape[1] ?? 1;
    if (elementCount(lengths.shape) !== expected) {
      throw misfit(
        module,
        `it gets ${elementCount(lengths.shape)} lengths of ${over}, it has ${expected}`,
      );
    }
  }
}

/** Rows and columns of what a change adds, or nothing when its factors do not fit each other. */
function sizeOf(change: WeightChange): [rows: number, columns: number] | undefined {
  switch (change.kind) {
    case "low-rank":
      return productSize([change.up, change.down]);
    case "hadamard": {
      const first = productSize([change.up[0], change.down[0]]);
      const second = productSize([change.up[1], change.down[1]]);
      const isAlike = first?.[0] === second?.[0] && first?.[1] === second?.[1];
      return isAlike ? first : undefined;
    }
    case "kronecker": {
      const [first, second] = change.factors.map(productSize);
      return first && second && [first[0] * second[0], first[1] * second[1]];
    }
    case "whole":
      return matrixShape(change.delta);
  }
}

function productSize(
  factors: readonly LoraTensor[],
): [rows: number, columns: number] | undefined {
  const [first, second] = factors.map(matrixShape);
  if (!first || !second) return first;
  return first[1] === second[0] ? [first[0], second[1]] : undefined;
}

function misfit({ name, shape }: AdaptableModule, what: string): RangeError {
  return new RangeError(
    `Cannot apply a LoRA to "${name}" of shape ${formatShape(shape)}: ${what}`,
  );
}
