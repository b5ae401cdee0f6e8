/** Layer normalisation of the rows of a matrix product: by the product's own kernel, or by one before it. */
import type { Tensor } from "../../graph/graph.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import type { LayerNormOptions } from "../norm/layer_norm.ts";
import type { GemmEpilogue } from "./epilogue.ts";

/** Invocations per workgroup of a kernel that normalises, and rows that it loads at a time. */
const LANES = 8;

/** Sizes of a product that decide whether its kernel normalises. */
interface NormProblem {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: unknown;
  readonly epilogue: GemmEpilogue;
}

/** Most rows of a tile whose code still fits the instruction cache together with that of a normalisation. */
const MAX_TILE_ROWS = 48;
/** What a dispatch costs, in elements of a that eight lanes load and normalise. */
const DISPATCH_COST = 9000;

/**
 * Whether a kernel of this tile had better normalise the rows of a itself. A dispatch is spared, but every workgroup
 * along n does again what eight rows of a kernel of its own cost.
 */
export function sparesNorm(
  { m, n, k, batch, epilogue }: NormProblem,
  tile: { readonly rows: number; readonly columns: number },
): boolean {
  if (k % 4 !== 0 || batch || epilogue.scale || epilogue.lowRank) return false;
  const workgroups = Math.ceil(m / tile.rows) * Math.ceil(n / (LANES * tile.columns));
  return tile.rows <= MAX_TILE_ROWS &&
    workgroups * k <= DISPATCH_COST + Math.ceil(m / LANES) * k;
}

/** What a product's kernel takes besides its own buffers to normalise. */
interface NormOperands {
  /** Parameters of its file. */
  readonly norm: ParamValues;
  readonly buffers: Readonly<Record<string, Tensor>>;
}

/** The operands of a normalisation in the kernel. */
export function normOperands(
  { weight, bias, scale, shift }: LayerNormOptions,
  k: number,
  buffers: Readonly<Record<string, Tensor>> & { readonly y: Tensor },
): NormOperands | undefined {
  const { graph } = buffers.y;
  const own: Record<string, Tensor> = {};
  for (const [name, vector] of Object.entries({ weight, bias, scale, shift })) {
    if (!vector) continue;
    if (vector.size !== k || vector.dim(-1) !== k) return undefined;
    own[`norm_${name}`] = vector;
  }
  const bindings = graph.bindingsOf([...Object.values(buffers), ...Object.values(own)]);
  if (bindings > graph.target.limits.maxStorageBuffers) return undefined;
  return {
    norm: {
      NORM: true,
      NORM_WEIGHT: weight !== undefined,
      NORM_BIAS: bias !== undefined,
      NORM_SCALE: scale !== undefined,
      NORM_SHIFT: shift !== undefined,
    },
    buffers: own,
  };
}
