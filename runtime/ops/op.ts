/** What an op is to those who check, race and time it; `registry.ts` lists them all. */
import type { StorageFormat } from "../dtype.ts";
import type { Tensor } from "../graph/graph.ts";
import type { Shape } from "../shape.ts";
import type { Target } from "../target.ts";
import type { OpCase, OpSuite } from "../conformance.ts";
import { whyNoMatrixUnit } from "./matrix_unit.ts";

export interface Op {
  /** Name, as `chooseVariant()` gets it, and as in `Target.choices` and `Target.forcedVariants`; in camelCase. */
  readonly name: string;
  /** Case tables, which every variant must pass. */
  readonly suites: readonly OpSuite[];
  /** What the doctor runs; the first two cases of the first suite by default. */
  readonly checks?: readonly Check[];
  /** One problem for each class that models often meet; left out for ops with a single way. */
  readonly races?: readonly RaceProblem[];
  /** Problems at any size, by the name that specs of benches have, in snake_case. */
  readonly benches?: Readonly<Record<string, Bench>>;
}

/** A part of an op that the doctor names on a line of its own. */
export interface Check {
  /** What is checked, such as `linear: q8_0 weights`. */
  readonly name: string;
  readonly cases: readonly OpCase[];
  /** The variant that must take them, on an adapter that can; the adapter's own choice by default. */
  readonly variant?: string;
  whyNot?(target: Target): string | undefined;
}

/** Cases that a kernel for matrix units must take wherever the adapter has them. */
export function matrixCheck(op: string, variant: string, cases: readonly OpCase[]): Check {
  return { name: `${op}: matrix units`, variant, cases, whyNot: whyNoMatrixUnit };
}

/** One problem that every variant of an op computes in turn. */
export interface Race {
  /** Name of the op, as in `Target.choices`. */
  readonly op: string;
  /** What the op is given. */
  readonly inputs: readonly RaceInput[];
  /** Calls the op. */
  build(...tensors: Tensor[]): Tensor;
  /** Inputs of about `factor` times the work, of the same class, as far as there are such; only those given by default. */
  grow?(factor: number): readonly RaceInput[];
}

/** Sizes of more work: the one that is farthest from its limit is doubled, again and again. */
export function growSizes(
  sizes: readonly number[],
  limits: readonly number[],
  factor: number,
): number[] {
  const grown = [...sizes];
  for (let left = factor; left > 1; left /= 2) {
    const room = grown.map((size, i) => Math.floor(limits[i]! / size));
    const widest = room.indexOf(Math.max(...room));
    if (room[widest]! < 2) break;
    grown[widest]! *= 2;
  }
  return grown;
}

/** A race of the op that lists it. */
export interface RaceProblem extends Omit<Race, "op"> {
  /** When a tuning run does it, because a run may end before all are done: first what takes most of models' time. */
  readonly priority: 1 | 2 | 3;
}

/** One input: random numbers. */
export interface RaceInput {
  /** Sizes, outermost first; a quantised weight has rows in multiples of 64. */
  readonly shape: Shape;
  /** How it is stored. */
  readonly dtype: StorageFormat;
  /** Root of the mean square of the numbers. */
  readonly magnitude: number;
}

/** An input of a race: f32 of about 1 unless told otherwise. */
export function raceInput(
  shape: Shape,
  dtype: StorageFormat = "f32",
  magnitude = 1,
): RaceInput {
  return { shape, dtype, magnitude };
}

export interface Bench {
  /** Names of the sizes, in the order of a spec such as `linear:32x640x160`. */
  readonly sizes: readonly string[];
  /** Formats that the second input, a weight, may be stored in; f32 only by default. */
  readonly weights?: readonly StorageFormat[];
  /** Shapes, and arithmetic operations; of attention the products only. */
  describe(sizes: readonly number[]): BenchShapes;
  build(...inputs: Tensor[]): Tensor;
}

interface BenchShapes {
  readonly inputs: readonly Shape[];
  readonly output: Shape;
  readonly flops: number;
}

/** Arithmetic operations per element of a normalisation, which memory bounds. */
const NORM_FLOPS = 8;

/** A bench of an op over rows, whose result has the shape of its input. */
export function rowBench(
  names: readonly [string, string],
  build: (x: Tensor) => Tensor,
  flopsPerElement = NORM_FLOPS,
): Bench {
  return {
    sizes: names,
    describe: ([rows, columns]) => ({
      inputs: [[rows!, columns!]],
      output: [rows!, columns!],
      flops: flopsPerElement * rows! * columns!,
    }),
    build,
  };
}
