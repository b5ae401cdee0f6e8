import type { ParamValues } from "../../shaders/expand.ts";
import type { Activation } from "../activations.ts";

/**
 * What a matrix product does with its sums before it stores them: y = residual + gate * activation(scale * sum + bias).
 * Parts that are omitted cost nothing; `shaders/gemm/epilogue.wgsl` has them.
 */
export interface GemmEpilogue {
  readonly scale: boolean;
  readonly bias: boolean;
  readonly activation: Activation;
  readonly gate: boolean;
  readonly residual: boolean;
  /** The columns are cut into equal parts, whose results lie one after the other. */
  readonly parts?: boolean;
  /** A gated linear unit: the half of the columns that is activated; besides, only the bias of the parts above is used. */
  readonly glu?: "first" | "second";
  /** A low-rank branch t · upᵀ is added to the sums: t is [m, rank], up [n, rank]. */
  readonly lowRank?: {
    /** rank is a multiple of 4. */
    readonly isVectorRank: boolean;
  };
}

/** The epilogue's parameters of a kernel. */
export function epilogueParams(epilogue: GemmEpilogue): ParamValues {
  return {
    SCALE: epilogue.scale,
    BIAS: epilogue.bias,
    ACTIVATION: epilogue.activation,
    GATE: epilogue.gate,
    RESIDUAL: epilogue.residual,
    PARTS: epilogue.parts === true,
    GLU: epilogue.glu !== undefined,
    GLU_GATE: epilogue.glu ?? "first",
    LOW_RANK: epilogue.lowRank !== undefined,
    VECTOR_RANK: epilogue.lowRank?.isVectorRank ?? true,
  };
}
