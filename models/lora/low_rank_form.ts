/**
 * Which changes of a weight are low-rank branches, exactly, and how.
 * Source: (A·B) ∘ (C·D) = (A ⊙ C)·(B ⊙ D) with all products of a column of A and one of C (Khatri-Rao);
 * (A·B) ⊗ (C·D) = (A ⊗ C)·(B ⊗ D) (Kronecker).
 */
import { decodeFloats, elementCount, formatShape, type StoredElements } from "../../runtime/mod.ts";
import type { AdaptableModule, LoraTensor, ModuleChange, WeightChange } from "./types.ts";

/** A tensor's elements in f32, exactly. */
export function floatElements({ bytes, dtype }: LoraTensor): Float32Array<ArrayBuffer> {
  return decodeFloats(bytes, dtype);
}

/** A tensor's elements in its own type or f32; a view where the bytes lie right. */
export function elementsAs(dtype: LoraTensor["dtype"], tensor: LoraTensor): StoredElements {
  if (tensor.dtype !== dtype) return floatElements(tensor);
  const size = dtype === "f32" ? 4 : 2;
  const bytes = tensor.bytes.byteOffset % size === 0 ? tensor.bytes : tensor.bytes.slice();
  const length = bytes.byteLength / size;
  return dtype === "f32"
    ? new Float32Array(bytes.buffer, bytes.byteOffset, length)
    : new Uint16Array(bytes.buffer, bytes.byteOffset, length);
}

/** A tensor seen as a matrix: its first size, and all others together. */
export function matrixShape({ shape }: LoraTensor): [rows: number, columns: number] {
  const rows = shape[0] ?? 1;
  return [rows, elementCount(shape) / rows];
}

/** Widest branch that is formed from factors that are no low-rank ones. */
const MAX_FORMED_RANK = 128;

interface LowRankForm {
  /** [rank, columns] */
  readonly down: LoraTensor;
  /** [rows, rank] */
  readonly up: LoraTensor;
}

export function branchRank(change: WeightChange): number | undefined {
  switch (change.kind) {
    case "whole":
      return undefined;
    case "low-rank":
      return matrixShape(change.down)[0];
    case "hadamard":
      return matrixShape(change.down[0])[0] * matrixShape(change.down[1])[0];
    case "kronecker":
      return factorRank(change.factors[0]) * factorRank(change.factors[1]);
  }
}

export function summedRank({ weight }: ModuleChange): number {
  return weight.reduce((sum, part) => sum + (branchRank(part) ?? 0), 0);
}

/**
 * Whether a change cannot be, or is not worth, a branch: formed ones are up to {@linkcode MAX_FORMED_RANK}, or beside
 * quantised weights as long as they are smaller than the weight decoded.
 */
export function needsWriting(
  { weight, magnitude }: ModuleChange,
  { shape, isQuantised }: Pick<AdaptableModule, "shape" | "isQuantised">,
): boolean {
  if (magnitude) return true;
  const rows = shape[0]!;
  const columns = elementCount(shape) / rows;
  return weight.some((part) => {
    const rank = branchRank(part);
    if (rank === undefined) return true;
    if (part.kind === "low-rank" || rank <= MAX_FORMED_RANK) return false;
    return !isQuantised || rank * (rows + columns) >= rows * columns;
  });
}

/** Rank of a Kronecker factor: of the product it is, or the most that a matrix can have. */
function factorRank(factor: readonly LoraTensor[]): number {
  return factor.length === 2 ? matrixShape(factor[1]!)[0] : Math.min(...matrixShape(factor[0]!));
}

export function toLowRank(change: WeightChange): LowRankForm {
  switch (change.kind) {
    case "low-rank":
      return change;
    case "hadamard": {
      const [a, b] = change.up.map(toMatrix) as [Matrix, Matrix];
      const [c, d] = change.down.map(toMatrix) as [Matrix, Matrix];
      return { up: fromMatrix(columnProducts(a, b)), down: fromMatrix(rowProducts(c, d)) };
    }
    case "kronecker": {
      const [a, b] = change.factors.map(factorForm) as [Factored, Factored];
      return {
        up: fromMatrix(kronecker(a.up, b.up)),
        down: fromMatrix(kronecker(a.down, b.down)),
      };
    }
    case "whole":
      throw new RangeError(
        `Cannot factor a change of ${formatShape(change.delta.shape)}: it is stored whole`,
      );
  }
}

export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float32Array<ArrayBuffer>;
}

interface Factored {
  readonly up: Matrix;
  readonly down: Matrix;
}

export function toMatrix(tensor: LoraTensor): Matrix {
  const [rows, columns] = matrixShape(tensor);
  return { rows, columns, values: floatElements(tensor) };
}

function fromMatrix({ rows, columns, values }: Matrix): LoraTensor {
  return { shape: [rows, columns], dtype: "f32", bytes: new Uint8Array(values.buffer) };
}

function emptyMatrix(rows: number, columns: number): Matrix {
  return { rows, columns, values: new Float32Array(elementCount([rows, columns])) };
}

function factorForm(factor: readonly LoraTensor[]): Factored {
  const [first, second] = factor.map(toMatrix) as [Matrix, Matrix?];
  if (second) return { up: first, down: second };
  return first.rows <= first.columns
    ? { up: identity(first.rows), down: first }
    : { up: first, down: identity(first.columns) };
}

function identity(size: number): Matrix {
  const matrix = emptyMatrix(size, size);
  for (let i = 0; i < size; i++) matrix.values[i * size + i] = 1;
  return matrix;
}

/** All products of a column of `a` and one of `b`: [rows, a.columns · b.columns]. */
function columnProducts(a: Matrix, b: Matrix): Matrix {
  const result = emptyMatrix(a.rows, a.columns * b.columns);
  for (let row = 0, at = 0; row < a.rows; row++) {
    for (let i = 0; i < a.columns; i++) {
      const value = a.values[row * a.columns + i]!;
      for (let j = 0; j < b.columns; j++) {
        result.values[at++] = value * b.values[row * b.columns + j]!;
      }
    }
  }
  return result;
}

/** All products of a row of `a` and one of `b`: [a.rows · b.rows, columns]. */
function rowProducts(a: Matrix, b: Matrix): Matrix {
  const result = emptyMatrix(a.rows * b.rows, a.columns);
  for (let i = 0, at = 0; i < a.rows; i++) {
    for (let j = 0; j < b.rows; j++) {
      for (let column = 0; column < a.columns; column++) {
        result.values[at++] = a.values[i * a.columns + column]! *
          b.values[j * a.columns + column]!;
      }
    }
  }
  return result;
}

function kronecker(a: Matrix, b: Matrix): Matrix {
  const result = emptyMatrix(a.rows * b.rows, a.columns * b.columns);
  for (let i = 0, at = 0; i < a.rows; i++) {
    for (let j = 0; j < b.rows; j++) {
      for (let k = 0; k < a.columns; k++) {
        const value = a.values[i * a.columns + k]!;
        for (let l = 0; l < b.columns; l++) {
          result.values[at++] = value * b.values[j * b.columns + l]!;
        }
      }
    }
  }
  return result;
}
