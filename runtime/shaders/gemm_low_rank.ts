/** A low-rank branch of matrix products: what their kernels read besides a and b to add t · upᵀ to their sums. */
import type { BufferSlot, ParamType } from "./assemble.ts";
import { rowLoader } from "./gemm_operands.ts";

/**
 * t · upᵀ, added to the sums by a second walk with the same tile: t is [m, rank], up [n, rank]. Kernels load them by
 * `t_four(start, k)` and `up_four(start, k)`, as they load a and b of layout `nk`.
 */
export interface GemmLowRank {
  /** rank is a multiple of 4. */
  readonly isVectorRank: boolean;
}

/** The branch's part of a kernel's name. */
export function lowRankName(lowRank: GemmLowRank | undefined): string {
  return lowRank ? ` low rank${lowRank.isVectorRank ? "" : " odd"}` : "";
}

/** Buffers that the branch reads. */
export function lowRankBuffers(lowRank: GemmLowRank | undefined): BufferSlot[] {
  if (!lowRank) return [];
  const width = lowRank.isVectorRank ? 4 : 1;
  return [
    { name: "t", access: "read", width },
    { name: "up", access: "read", width },
  ];
}

/** Parameters that the branch reads besides `m` and `n`. */
export function lowRankParams(lowRank: GemmLowRank | undefined): Record<string, ParamType> {
  return lowRank ? { rank: "u32" } : {};
}

/** The loaders `t_four` and `up_four`. */
export function lowRankLoaders({ isVectorRank }: GemmLowRank): string {
  return `${rowLoader("t", isVectorRank, "params.rank")}
${rowLoader("up", isVectorRank, "params.rank")}`;
}

/**
 * A kernel's second walk: `walk` makes the text of the first one for other operands. In a scope of its own, where
 * `row_words` and `steps` count accesses and `vec4`s of a row of t and up.
 */
export function lowRankWalk(
  lowRank: GemmLowRank | undefined,
  walk: (a: "t", b: "up") => string,
): string {
  if (!lowRank) return "";
  return `  {
  let row_words = params.rank${lowRank.isVectorRank ? " / 4u" : ""};
  let steps = (params.rank + 3u) / 4u;
  let t_start = 0u;
  let up_start = 0u;
${walk("t", "up")}
  }`;
}
