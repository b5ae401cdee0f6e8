/** LoRAs made by hand for tests, and what they mean, written out in double precision. */
import type { Lora, LoraTensor, ModuleChange, WeightChange } from "../../models/lora/types.ts";
import { decodeElements, elementCount, encodeElements } from "../../runtime/mod.ts";
import { randomNormal } from "../../runtime/ops/ndarray.ts";

/** A tensor of normal numbers. */
export function randomTensor(
  shape: readonly number[],
  seed: number,
  { dtype = "f32", scale = 0.1 }: { dtype?: LoraTensor["dtype"]; scale?: number } = {},
): LoraTensor {
  return { shape, dtype, bytes: encodeElements(randomNormal(shape, seed, scale).data, dtype) };
}

/** A LoRA with these changes. */
export function loraOf(...changes: readonly ModuleChange[]): Lora {
  return { dialect: "by hand", changes, unmatchedKeys: [], byteLength: 0 };
}

/** One change of every kind for a weight [rows, columns]; sides that are multiples of 4. */
export function changesOfAllKinds(rows: number, columns: number): Record<string, WeightChange> {
  const tensor = (shape: readonly number[], seed: number) =>
    randomTensor(shape, seed, { scale: 0.3 });
  return {
    "low-rank": {
      kind: "low-rank",
      scale: 0.5,
      down: tensor([3, columns], 1),
      up: tensor([rows, 3], 2),
    },
    "low-rank of some rows": {
      kind: "low-rank",
      scale: 2,
      rows: [4, rows / 2],
      down: tensor([2, columns], 3),
      up: tensor([rows / 2, 2], 4),
    },
    hadamard: {
      kind: "hadamard",
      scale: 1.5,
      down: [tensor([2, columns], 5), tensor([3, columns], 6)],
      up: [tensor([rows, 2], 7), tensor([rows, 3], 8)],
    },
    kronecker: {
      kind: "kronecker",
      scale: -1,
      factors: [[tensor([4, 2], 9)], [tensor([rows / 4, 2], 10), tensor([2, columns / 2], 11)]],
    },
    "kronecker of wholes": {
      kind: "kronecker",
      scale: 0.7,
      factors: [[tensor([2, 4], 12)], [tensor([rows / 2, columns / 4], 13)]],
    },
    whole: { kind: "whole", scale: 1, delta: tensor([rows, columns], 14) },
  };
}

/** What a change adds at strength 1 to a weight of `rows` rows, row by row. */
export function changeReference(change: WeightChange, rows: number): Float64Array {
  const [start] = change.rows ?? [0];
  const own = unscaled(change);
  const all = new Float64Array(rows * own.columns);
  all.set(own.data.map((value) => value * change.scale), start * own.columns);
  return all;
}

/** A module's change and how strongly it is asked for. */
export interface Use {
  readonly change: ModuleChange;
  readonly strength: number;
}

/**
 * What changes of a module make of its weight, one after the other. One with lengths moves the weight by its strength
 * from where it is to where full strength would lead.
 */
export function changedWeight(
  weight: Float64Array,
  rows: number,
  uses: readonly Use[],
): Float64Array {
  let current = weight;
  for (const { change: { weight: parts, magnitude }, strength } of uses) {
    const next = current.slice();
    for (const part of parts) {
      const delta = changeReference(part, rows);
      delta.forEach((value, i) => next[i]! += (magnitude ? 1 : strength) * value);
    }
    if (magnitude) {
      setLengths(next, rows, matrix(magnitude.lengths).data, magnitude.over);
      next.forEach((value, i) => {
        next[i] = current[i]! + strength * (value - current[i]!);
      });
    }
    current = next;
  }
  return current;
}

/** Lengths of rows, or of what all rows have of an input channel, taps included. */
function setLengths(
  weight: Float64Array,
  rows: number,
  lengths: Float64Array,
  over: "rows" | "columns",
): void {
  const columns = weight.length / rows;
  const taps = columns / lengths.length;
  const groupOf = (i: number) => Math.floor(over === "rows" ? i / columns : i % columns / taps);
  const squares = new Float64Array(lengths.length);
  weight.forEach((value, i) => squares[groupOf(i)]! += value * value);
  weight.forEach((value, i) => {
    weight[i] = value * lengths[groupOf(i)]! / Math.sqrt(squares[groupOf(i)]!);
  });
}

interface Matrix {
  readonly columns: number;
  readonly data: Float64Array;
}

function unscaled(change: WeightChange): Matrix {
  switch (change.kind) {
    case "low-rank":
      return product(matrix(change.up), matrix(change.down));
    case "hadamard": {
      const [a, b] = [0, 1].map((i) => product(matrix(change.up[i]!), matrix(change.down[i]!)));
      return { columns: a!.columns, data: a!.data.map((value, i) => value * b!.data[i]!) };
    }
    case "kronecker": {
      const [a, b] = change.factors.map((parts) => parts.map(matrix).reduce(product)) as [
        Matrix,
        Matrix,
      ];
      return kronecker(a, b);
    }
    case "whole":
      return matrix(change.delta);
  }
}

function matrix({ shape, dtype, bytes }: LoraTensor): Matrix {
  return { columns: elementCount(shape) / shape[0]!, data: decodeElements(bytes, dtype) };
}

function product(a: Matrix, b: Matrix): Matrix {
  const rows = a.data.length / a.columns;
  const data = new Float64Array(rows * b.columns);
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < a.columns; i++) {
      for (let column = 0; column < b.columns; column++) {
        data[row * b.columns + column]! += a.data[row * a.columns + i]! *
          b.data[i * b.columns + column]!;
      }
    }
  }
  return { columns: b.columns, data };
}

function kronecker(a: Matrix, b: Matrix): Matrix {
  const [aRows, bRows] = [a, b].map(({ data, columns }) => data.length / columns) as [
    number,
    number,
  ];
  const columns = a.columns * b.columns;
  const data = new Float64Array(aRows * bRows * columns);
  for (let row = 0; row < aRows * bRows; row++) {
    for (let column = 0; column < columns; column++) {
      const left = a.data[Math.floor(row / bRows) * a.columns + Math.floor(column / b.columns)]!;
      const right = b.data[row % bRows * b.columns + column % b.columns]!;
      data[row * columns + column] = left * right;
    }
  }
  return { columns, data };
}
