/** Convolutions as their variants are given them, and what a variant must tell of itself. */
import type { Kernel } from "../../shaders/kernel.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import type { Target } from "../../target.ts";
import type { Variant } from "../variants.ts";

/** What the choice of tiles depends on. */
export interface ConvProblem {
  readonly inChannels: number;
  /** Output channels. */
  readonly channels: number;
  /** Rows and columns of a frame of the result. */
  readonly height: number;
  readonly width: number;
  /** Frames of all videos of the result. */
  readonly frames: number;
  /** Frames, rows and columns of the kernel. */
  readonly taps: number;
  /** The input is seen at twice its size. */
  readonly isUpsampled: boolean;
  /** Columns of the kernel, and from one of its places in a row to the next. */
  readonly kernelWidth: number;
  readonly stride: number;
  /** Factors may be rounded to f16. */
  readonly mayRound: boolean;
  /** The input is to be normalised, and a kernel has a binding for what does that. */
  readonly takesNorm: boolean;
}

/** A way to convolve. */
export interface ConvVariant extends Variant<ConvProblem> {
  /** Whether frames before the first may come in a tensor of their own; else they are joined to the input before. */
  readonly takesCache: boolean;
  /** Whether the kernel normalises the input as it loads it; else a kernel before it does. */
  readonly normalizes?: boolean;
  /** Whether the dispatch says whether there is a residual: a kernel less to compile. */
  asks?(problem: ConvProblem): boolean;
  /**
   * The kernel, and how many of its workgroups a frame and the channels take.
   *
   * @param features parameters of `shaders/conv/problem.wgsl`; CACHE only where `takesCache`
   */
  plan(
    features: ParamValues,
    problem: ConvProblem,
    target: Target,
  ): { kernel: Kernel; workgroups: [frame: number, channels: number] };
}
