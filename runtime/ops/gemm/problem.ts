/** Matrix products as `linear` and `matmul` ask for them, and what a variant must tell of itself. */
import type { Tensor } from "../../graph/graph.ts";
import type { WeightFormat } from "../../quantization/block_format.ts";
import type { Kernel } from "../../shaders/kernel.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import type { Target } from "../../target.ts";
import type { Variant } from "../variants.ts";
import type { GemmEpilogue } from "./epilogue.ts";

/** Sizes and structure of a product y = epilogue(a · b). */
export interface GemmProblem {
  readonly m: number;
  /** Columns of the product, of which a gated linear unit stores half. */
  readonly n: number;
  readonly k: number;
  /** Layout of b: rows of k (`nk`), or rows of n (`kn`). */
  readonly layout: "nk" | "kn";
  /** Matrices in the batch, and how a batch index becomes offsets into a and b. */
  readonly batch?: GemmBatch;
  readonly epilogue: GemmEpilogue;
  /** How b is stored when it is a quantised weight. */
  readonly format?: WeightFormat;
  /** Factors may be rounded to f16. */
  readonly mayRound: boolean;
  /** Rows of a are normalised by the kernel: its parameters for that. */
  readonly norm?: ParamValues;
  /** The dispatch says which operands the epilogue has: parameters of the kernel for that. */
  readonly asked?: ParamValues;
}

/** A batch: matrix z is made from a at `floor(z / inner) * aOuter + (z % inner) * aInner` elements, b likewise. */
export interface GemmBatch {
  readonly count: number;
  readonly inner: number;
  readonly aOuter: number;
  readonly aInner: number;
  readonly bOuter: number;
  readonly bInner: number;
}

/** A way to compute a product. */
export interface GemmVariant extends Variant<GemmProblem> {
  /** The kernel and its grid. */
  plan(
    problem: GemmProblem,
    target: Target,
  ): { kernel: Kernel; workgroups: [number, number, number] };
  /** Whether to leave it to the kernel to normalise the rows of a, rather than to one before it. */
  normalizes?(problem: GemmProblem): boolean;
  /** Whether the dispatch says which operands its epilogue has; see `asked.ts`. */
  asks?(problem: GemmProblem): boolean;
  /** What the kernel takes in place of a, where that is not a itself. */
  prepare?(problem: GemmProblem, a: Tensor): Tensor;
}
