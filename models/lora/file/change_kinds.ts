/**
 * What tensors make a change of a weight, of which shapes: low-rank factors, LoHa, LoKr, whole differences.
 * Source: Hu et al. 2021 (LoRA); Hyeon-Woo et al. 2022, "FedPara" (LoHa, and Tucker form for convolutions); Yeh et al.
 * 2024, "Navigating Text-To-Image Customization" (LyCORIS: LoKr and the names).
 */
import { elementCount, formatShape, type Shape, type TensorEntry } from "../../../runtime/mod.ts";
import type { LoraTensor, WeightChange } from "../types.ts";
import { HADAMARD, KRONECKER, type Part } from "./keys.ts";
import { foldCore, transposed } from "./tucker.ts";

export type Parts = ReadonlyMap<Part, TensorEntry>;

export type TensorReader = (entry: TensorEntry) => LoraTensor;

interface PlannedChange {
  /** Rank that alpha is divided by for the scale; nothing where no product is in it. */
  readonly rank?: number;
  readonly tensors: readonly TensorEntry[];
  build(read: TensorReader, scale: number): WeightChange;
}

/** Highest rank, or this many times the weight's smaller size: a product has no more than the size, more is wasted. */
const USUAL_RANK = 1024;
const RANK_FACTOR = 4;

/** A change that cannot be: a message without the module's name. */
export class MisfitError extends Error {}

type Planner = (parts: Parts, shape: Shape) => PlannedChange | undefined;

/** Checks that parts fit each other and a weight, [out, in, ...taps] or [size]. */
export function planChanges(parts: Parts, shape: Shape): PlannedChange[] {
  return [planLowRank, planHadamard, planKronecker, planWhole]
    .map((plan: Planner) => plan(parts, shape))
    .filter((change) => change !== undefined);
}

function planLowRank(parts: Parts, shape: Shape): PlannedChange | undefined {
  const present = (["down", "up", "core"] as const).filter((part) => parts.has(part));
  if (present.length === 0) return undefined;
  const down = require(parts, "down", present[0]!);
  const up = require(parts, "up", present[0]!);
  const core = parts.get("core");
  const [rows, ...inner] = matrixShape(shape);
  const rank = rankOf(up, up.shape[1], shape);
  checkShape(up, [rows, rank]);
  if (!core) {
    checkShape(down, [rank, ...inner]);
    return {
      rank,
      tensors: [down, up],
      build: (read, scale) => ({ kind: "low-rank", scale, down: read(down), up: read(up) }),
    };
  }
  const [channels = 1, ...taps] = inner;
  const innerRank = rankOf(down, down.shape[0], shape);
  checkShape(down, [innerRank, channels]);
  checkShape(core, [rank, innerRank, ...taps]);
  return {
    rank: innerRank,
    tensors: [down, up, core],
    build: (read, scale) => ({
      kind: "low-rank",
      scale,
      down: foldCore(read(core), read(down)),
      up: read(up),
    }),
  };
}

function planHadamard(parts: Parts, shape: Shape): PlannedChange | undefined {
  const present = HADAMARD.filter((part) => parts.has(part));
  if (present.length === 0) return undefined;
  const [first, second] = ([1, 2] as const).map((i) =>
    planFactor(parts, shape, `hada_w${i}_a`, `hada_w${i}_b`, `hada_t${i}`, present[0]!)
  ) as [Factor, Factor];
  return {
    rank: first.rank,
    tensors: [...first.tensors, ...second.tensors],
    build: (read, scale) => {
      const [a, b] = [first.read(read), second.read(read)];
      return { kind: "hadamard", scale, up: [a[0], b[0]], down: [a[1], b[1]] };
    },
  };
}

interface Factor {
  readonly rank: number;
  readonly tensors: readonly TensorEntry[];
  read(read: TensorReader): readonly [up: LoraTensor, down: LoraTensor];
}

function planFactor(
  parts: Parts,
  shape: Shape,
  upName: Part,
  downName: Part,
  coreName: Part | undefined,
  present: Part,
): Factor {
  const up = require(parts, upName, present);
  const down = require(parts, downName, present);
  const core = coreName && parts.get(coreName);
  const [rows, ...inner] = matrixShape(shape);
  const rank = rankOf(down, down.shape[0], shape);
  if (!core) {
    checkShape(up, [rows, rank]);
    checkShape(down, [rank, ...inner]);
    return { rank, tensors: [up, down], read: (read) => [read(up), read(down)] };
  }
  const [channels = 1, ...taps] = inner;
  const upRank = rankOf(up, up.shape[0], shape);
  checkShape(up, [upRank, rows]);
  checkShape(down, [rank, channels]);
  checkShape(core, [upRank, rank, ...taps]);
  return {
    rank,
    tensors: [up, down, core],
    read: (read) => [transposed(read(up)), foldCore(read(core), read(down))],
  };
}

function planKronecker(parts: Parts, shape: Shape): PlannedChange | undefined {
  const present = KRONECKER.filter((part) => parts.has(part));
  if (present.length === 0) return undefined;
  const [rows, channels = 1, ...taps] = matrixShape(shape);
  const first = planKroneckerFactor(parts, "1", present[0]!, () => {
    const up = require(parts, "lokr_w1_a", present[0]!);
    const down = require(parts, "lokr_w1_b", present[0]!);
    return [up.shape[0] ?? 0, down.shape[1] ?? 0];
  });
  const [firstRows, firstColumns] = first.shape;
  const innerShape = [rows / firstRows, channels / firstColumns];
  if (!innerShape.every((size) => Number.isInteger(size) && size > 0)) {
    const { name } = first.tensors[0]!;
    throw new MisfitError(
      `"${name}" makes a factor of [${first.shape}], which divides no weight of ${
        formatShape(shape)
      }`,
    );
  }
  const second = planKroneckerFactor(parts, "2", present[0]!, () => [...innerShape, ...taps]);
  const rank = second.rank ?? first.rank;
  return {
    ...(rank === undefined ? {} : { rank }),
    tensors: [...first.tensors, ...second.tensors],
    build: (read, scale) => ({
      kind: "kronecker",
      scale,
      factors: [first.read(read), second.read(read)],
    }),
  };
}

interface KroneckerFactor {
  readonly shape: readonly [rows: number, columns: number];
  readonly rank?: number;
  readonly tensors: readonly TensorEntry[];
  read(read: TensorReader): readonly LoraTensor[];
}

function planKroneckerFactor(
  parts: Parts,
  number: "1" | "2",
  present: Part,
  expected: () => number[],
): KroneckerFactor {
  const whole = parts.get(`lokr_w${number}`);
  if (whole) {
    if (number === "2") checkShape(whole, expected());
    else if (whole.shape.length < 2 || elementCount(whole.shape) === 0) {
      throw new MisfitError(`"${whole.name}" is ${formatShape(whole.shape)}, no matrix`);
    }
    return {
      shape: [whole.shape[0]!, elementCount(whole.shape) / whole.shape[0]!],
      tensors: [whole],
      read: (read) => [read(whole)],
    };
  }
  const shape = expected();
  const { rank, tensors, read } = planFactor(
    parts,
    shape,
    `lokr_w${number}_a`,
    `lokr_w${number}_b`,
    number === "2" ? "lokr_t2" : undefined,
    present,
  );
  return { shape: [shape[0]!, elementCount(shape) / shape[0]!], rank, tensors, read };
}

function planWhole(parts: Parts, shape: Shape): PlannedChange | undefined {
  const delta = parts.get("diff");
  if (!delta) return undefined;
  if (!isAlike(delta.shape, shape)) throw misfit(delta, shape);
  return {
    tensors: [delta],
    build: (read) => ({ kind: "whole", scale: 1, delta: read(delta) }),
  };
}

/** A weight as the changes see it: a vector is one column. */
function matrixShape(shape: Shape): [rows: number, ...inner: number[]] {
  const [rows = 1, ...inner] = shape;
  return [rows, ...(inner.length > 0 ? inner : [1])];
}

function require(parts: Parts, part: Part, present: Part): TensorEntry {
  const found = parts.get(part);
  if (!found) {
    throw new MisfitError(`"${parts.get(present)!.name}" has no partner (${partName(part)})`);
  }
  return found;
}

function partName(part: Part): string {
  return part === "down" ? "lora_A or lora_down" : part === "up" ? "lora_B or lora_up" : part;
}

/** @param shape of the weight, or of the factor of one, that a product of this rank is for */
function rankOf({ name, shape: own }: TensorEntry, rank: number | undefined, shape: Shape): number {
  if (own.length < 2 || rank === undefined || rank <= 0) {
    throw new MisfitError(`"${name}" of shape ${formatShape(own)} has rank ${rank ?? 0}`);
  }
  const [rows, ...inner] = matrixShape(shape);
  const most = Math.max(USUAL_RANK, RANK_FACTOR * Math.min(rows, elementCount(inner)));
  if (rank <= most) return rank;
  throw new MisfitError(
    `"${name}" of shape ${
      formatShape(own)
    } has rank ${rank}, where ${most} is the most for a weight of ${formatShape(shape)}`,
  );
}

/** The first size counts as it is; of the others, ones may be omitted, and all may be one. */
function checkShape(entry: TensorEntry, expected: readonly number[]): void {
  const [first, ...others] = entry.shape;
  const [expectedFirst, ...inner] = expected;
  const isFlat = entry.shape.length === 2 && others[0] === elementCount(inner);
  if (first === expectedFirst && (isFlat || isAlike(others, inner))) return;
  throw misfit(entry, expected);
}

/** Alike but for sizes of one: convolutions of 1 x 1 are stored as linear layers and the other way round. */
function isAlike(a: Shape, b: Shape): boolean {
  const [first, second] = [a, b].map((shape) => shape.filter((size) => size !== 1));
  return first!.length === second!.length && first!.every((size, i) => size === second![i]);
}

function misfit({ name, shape }: TensorEntry, expected: readonly number[]): MisfitError {
  return new MisfitError(
    `"${name}" is ${formatShape(shape)}, the module needs ${formatShape(expected)}`,
  );
}
