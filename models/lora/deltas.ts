/** LoRAs written out: what they make of the rows of a weight. All sums are f32, norms double. */
import { floatElements, type Matrix, toMatrix } from "./low_rank_form.ts";
import type { WeightedChange } from "./plan.ts";
import type { LoraTensor, ModuleChange, WeightChange } from "./types.ts";

/** Rows of a matrix: as many as `values` holds, from `firstRow` on. */
export interface MatrixRows {
  readonly values: Float32Array;
  readonly firstRow: number;
  readonly columns: number;
}

export type RowChange = (rows: MatrixRows) => void;

export function weightRewrite(
  changes: readonly WeightedChange[],
  storedRows: () => Iterable<MatrixRows>,
): RowChange {
  const steps: RowChange[] = [];
  for (const { change, lora: { strength } } of changes) {
    const { magnitude } = change;
    if (!magnitude) {
      steps.push(adding(change, strength));
      continue;
    }
    const before = [...steps];
    // At full strength the weight as trained; between, the way there.
    const direction = adding(change, 1);
    const lengths = floatElements(magnitude.lengths);
    const norms = magnitude.over === "columns"
      ? channelNorms(storedRows(), lengths.length, (rows) => {
        before.forEach((step) => step(rows));
        direction(rows);
      })
      : undefined;
    steps.push((rows) => {
      const trained = { ...rows, values: rows.values.slice() };
      direction(trained);
      if (norms) scaleColumns(trained, lengths, norms);
      else scaleRows(trained, lengths);
      for (let i = 0; i < rows.values.length; i++) {
        const value = rows.values[i]!;
        rows.values[i] = strength === 1
          ? trained.values[i]!
          : value + strength * (trained.values[i]! - value);
      }
    });
  }
  return (rows) => steps.forEach((step) => step(rows));
}

export function biasRewrite(changes: readonly WeightedChange[]): RowChange {
  const parts = changes.map(({ change, lora: { strength } }) => ({
    delta: floatElements(change.bias!),
    strength,
  }));
  return ({ values, firstRow }) => {
    for (const { delta, strength } of parts) {
      for (let i = 0; i < values.length; i++) values[i]! += strength * delta[firstRow + i]!;
    }
  };
}

function channelNorms(
  parts: Iterable<MatrixRows>,
  channels: number,
  change: RowChange,
): Float64Array {
  const squares = new Float64Array(channels);
  for (const rows of parts) {
    change(rows);
    const { values, columns } = rows;
    const taps = columns / channels;
    for (let i = 0; i < values.length; i++) {
      squares[Math.floor(i % columns / taps)]! += values[i]! ** 2;
    }
  }
  return squares.map(Math.sqrt);
}

function adding(change: ModuleChange, strength: number): RowChange {
  const parts = change.weight.map((part) => ({
    part,
    add: adder(part),
    scale: part.scale * strength,
  }));
  return ({ values, firstRow, columns }) => {
    const rows = values.length / columns;
    for (const { part, add, scale } of parts) {
      const [start, count] = part.rows ?? [0, Infinity];
      const from = Math.max(firstRow, start);
      const to = Math.min(firstRow + rows, start + count);
      for (let row = from; row < to; row++) {
        const at = (row - firstRow) * columns;
        add(values.subarray(at, at + columns), row - start, scale);
      }
    }
  };
}

/** Adds `scale` times a row of the change to `target`. */
type RowAdder = (target: Float32Array, row: number, scale: number) => void;

function adder(change: WeightChange): RowAdder {
  switch (change.kind) {
    case "whole": {
      const delta = toMatrix(change.delta);
      return (target, row, scale) => addScaled(target, rowOf(delta, row), scale);
    }
    case "low-rank": {
      const add = productAdder([change.up, change.down]);
      return withSum(add);
    }
    case "hadamard": {
      const [first, second] = [0, 1].map((i) =>
        productAdder([change.up[i as 0 | 1], change.down[i as 0 | 1]])
      ) as [RowAdder, RowAdder];
      let [a, b] = [new Float32Array(), new Float32Array()];
      return (target, row, scale) => {
        if (a.length !== target.length) {
          [a, b] = [new Float32Array(target.length), new Float32Array(target.length)];
        }
        first(a.fill(0), row, 1);
        second(b.fill(0), row, 1);
        for (let i = 0; i < target.length; i++) target[i]! += scale * a[i]! * b[i]!;
      };
    }
    case "kronecker": {
      const [first, second] = change.factors.map(product) as [Matrix, Matrix];
      return (target, row, scale) => {
        const left = rowOf(first, Math.floor(row / second.rows));
        const right = rowOf(second, row % second.rows);
        for (let i = 0, at = 0; i < left.length; i++) {
          const value = scale * left[i]!;
          for (let j = 0; j < right.length; j++) target[at++]! += value * right[j]!;
        }
      };
    }
  }
}

function withSum(add: RowAdder): RowAdder {
  let sum = new Float32Array();
  return (target, row, scale) => {
    if (sum.length !== target.length) sum = new Float32Array(target.length);
    add(sum.fill(0), row, 1);
    addScaled(target, sum, scale);
  };
}

function productAdder(factors: readonly LoraTensor[]): RowAdder {
  const [up, down] = factors.map(toMatrix) as [Matrix, Matrix];
  const { columns, values } = down;
  const rank = up.columns;
  return (target, row, scale) => {
    const first = row * rank;
    let i = 0;
    // Four rows at a time: the target is loaded and stored a quarter as often.
    for (; i + 4 <= rank; i += 4) {
      const [a, b, c, d] = [0, 1, 2, 3].map((k) => scale * up.values[first + i + k]!) as [
        number,
        number,
        number,
        number,
      ];
      let at = i * columns;
      for (let j = 0; j < columns; j++, at++) {
        target[j]! += a * values[at]! + b * values[at + columns]! +
          c * values[at + 2 * columns]! + d * values[at + 3 * columns]!;
      }
    }
    for (; i < rank; i++) addScaled(target, rowOf(down, i), scale * up.values[first + i]!);
  };
}

function product(factor: readonly LoraTensor[]): Matrix {
  const first = toMatrix(factor[0]!);
  if (factor.length === 1) return first;
  const add = productAdder(factor);
  const { columns } = toMatrix(factor[1]!);
  const values = new Float32Array(first.rows * columns);
  for (let row = 0; row < first.rows; row++) {
    add(values.subarray(row * columns, (row + 1) * columns), row, 1);
  }
  return { rows: first.rows, columns, values };
}

function addScaled(target: Float32Array, source: Float32Array, scale: number): void {
  for (let i = 0; i < target.length; i++) target[i]! += scale * source[i]!;
}

function rowOf({ values, columns }: Matrix, row: number): Float32Array {
  return values.subarray(row * columns, (row + 1) * columns);
}

/** Gives rows their lengths; one of zeros has no direction and stays. */
function scaleRows({ values, firstRow, columns }: MatrixRows, lengths: Float32Array): void {
  for (let start = 0, row = firstRow; start < values.length; start += columns, row++) {
    let squares = 0;
    for (let i = start; i < start + columns; i++) squares += values[i]! ** 2;
    if (squares === 0) continue;
    const factor = lengths[row]! / Math.sqrt(squares);
    for (let i = start; i < start + columns; i++) values[i]! *= factor;
  }
}

function scaleColumns(
  { values, columns }: MatrixRows,
  lengths: Float32Array,
  norms: Float64Array,
): void {
  const taps = columns / lengths.length;
  const factors = norms.map((norm, i) => (norm === 0 ? 1 : lengths[i]! / norm));
  for (let i = 0; i < values.length; i++) values[i]! *= factors[Math.floor(i % columns / taps)]!;
}
