import type { Tensor } from "../../graph/graph.ts";
import { elementCount, sameShape } from "../../shape.ts";
import { isFloat } from "../../dtype.ts";
import { isWeightFormat } from "../../quantization/formats.ts";
import type { Activation } from "../activations.ts";
import { elementwise } from "../elementwise/mod.ts";
import { dispatchGemm } from "../gemm/mod.ts";
import { mayRoundToHalf } from "../matrix_unit.ts";
import { layerNorm, type LayerNormOptions } from "../norm/layer_norm.ts";
import type { LowRank } from "./low_rank.ts";

/** Elements of a result that an activation takes less than the time of a dispatch for. */
const FEW_ELEMENTS = 2 ** 14;

/** Optional parts of a linear layer. */
export interface LinearOptions {
  /** Added to every row: [N]. */
  readonly bias?: Tensor;
  /** Applied after the bias. */
  readonly activation?: Activation;
  /** Multiplies the activated value: [N], one row per leading index of x ([B, 1, N]), or the result's shape. */
  readonly gate?: Tensor;
  /** Added last: the result's shape. */
  readonly residual?: Tensor;
  /** Equal parts of N, N / parts a multiple of 4, that become a leading dimension of the result: several layers in one. */
  readonly parts?: number;
  /**
   * A gated linear unit: the result is activation(this half of the N columns) * other half, and N a multiple of 8.
   * Kernels of software adapters have none, so that there two products are faster.
   */
  readonly glu?: "first" | "second";
  /** Layer normalisation of the rows of x, before the product: in its kernel where that is faster. */
  readonly norm?: LayerNormOptions;
  /** Adapters, added before the bias. */
  readonly lowRank?: LowRank;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * y = residual + gate * activation(norm(x) · wᵀ + low rank + bias), summed in f32; or a gated linear unit.
 *
 * @param x [..., K], f32, f16 or bf16
 * @param w [N, K], f32, f16, bf16 or quantised, as checkpoints store it
 * @returns f32 [..., N], [..., N / 2] of a gated linear unit, or [parts, ..., N / parts]
 * @throws {RangeError} when the shapes do not fit together
 */
export function linear(x: Tensor, w: Tensor, options: LinearOptions = {}): Tensor {
  const { bias, activation = "none", gate, residual, lowRank, norm, glu } = options;
  // The two products of a low-rank branch take the same rows, which are normalised once.
  if (norm && lowRank) {
    const { norm: _, ...rest } = options;
    return linear(layerNorm(x, norm), w, rest);
  }
  const { graph } = x;
  if (leavesActivation(x, w, options)) {
    const { activation: _, name = "linear", ...rest } = options;
    return elementwise(`act_${activation}(t)`, { t: linear(x, w, rest) }, { name });
  }
  if (x.rank < 1 || w.rank !== 2 || x.dim(-1) !== w.dim(1)) {
    throw new RangeError(
      `Cannot apply linear to ${x} with weight ${w}: it needs [..., K] and [N, K]`,
    );
  }
  const format = isWeightFormat(w.dtype) ? w.dtype : undefined;
  for (const tensor of [x, format ? undefined : w, bias, gate, residual]) {
    if (tensor && !isFloat(tensor.dtype)) {
      throw new RangeError(`Cannot apply linear with ${tensor}: it needs f32, f16 or bf16`);
    }
  }
  const [n, k] = [w.dim(0), w.dim(1)];
  const m = x.size / k;
  const shape = [...x.shape.slice(0, -1), n];
  const { parts } = options;
  if (parts !== undefined && (n % (4 * parts) !== 0 || gate || residual)) {
    throw new RangeError(
      `Cannot apply linear ${w} in ${parts} parts: they must be multiples of 4, without gate and residual`,
    );
  }
  if (glu && (n % 8 !== 0 || gate || residual || parts !== undefined)) {
    throw new RangeError(
      `Cannot apply linear ${w} as a gated linear unit: its rows must be a multiple of 8, without gate, residual and parts`,
    );
  }
  if (bias && bias.size !== n) {
    throw new RangeError(`Cannot apply linear ${w} with bias ${bias}: it needs [${n}]`);
  }
  if (residual && !sameShape(residual.shape, shape)) {
    throw new RangeError(
      `Cannot apply linear ${w} with residual ${residual}: the result is [${shape.join(", ")}]`,
    );
  }
  const gateRows = gate && rowsPerGate(gate, shape);
  if (gate && gateRows === undefined) {
    throw new RangeError(
      `Cannot apply linear ${w} with gate ${gate}: it needs [${n}], [${shape[0]}, 1, ${n}] or [${
        shape.join(", ")
      }]`,
    );
  }
  const rank = lowRank?.scales.size;
  const t = lowRank && lowRankFactor(x, w, lowRank);
  const result = parts !== undefined
    ? [parts, ...shape.slice(0, -1), n / parts]
    : shape.with(-1, glu ? n / 2 : n);
  const y = graph.tensor(options.name ?? "linear", result);
  dispatchGemm(
    "linear",
    {
      m,
      n,
      k,
      layout: "nk",
      ...(format && { format }),
      mayRound: mayRoundToHalf("linear", graph, w.name, w.dtype),
      epilogue: {
        scale: false,
        bias: bias !== undefined,
        activation,
        gate: gate !== undefined,
        residual: residual !== undefined,
        parts: parts !== undefined,
        ...(glu && { glu }),
        ...(rank !== undefined && { lowRank: { isVectorRank: rank % 4 === 0 } }),
      },
    },
    {
      a: x,
      b: w,
      ...(bias && { bias }),
      ...(gate && { gate }),
      ...(residual && { residual }),
      ...(lowRank && t && { t, up: lowRank.up }),
      y,
    },
    {
      ...(gateRows !== undefined && { gate_rows: gateRows }),
      ...(parts !== undefined && { part_columns: n / parts, part_size: m * n / parts }),
      ...(rank !== undefined && { rank }),
    },
    norm,
  );
  return y;
}

/**
 * Whether a kernel of its own applies the activation: with one, a product's kernel takes a software adapter longer to compile
 * than thousands of further dispatches of few elements take.
 */
function leavesActivation(x: Tensor, w: Tensor, options: LinearOptions): boolean {
  const { activation = "none", gate, residual, glu } = options;
  const { schedule, forcedVariants } = x.graph.target;
  return activation !== "none" && schedule === "cpu" && forcedVariants["linear"] === undefined &&
    !gate && !residual && !glu && x.size / x.dim(-1) * w.dim(0) <= FEW_ELEMENTS;
}

/** scales ⊙ (x · downᵀ): [..., R], small against the result. */
function lowRankFactor(x: Tensor, w: Tensor, { down, up, scales }: LowRank): Tensor {
  const [n, k] = [w.dim(0), w.dim(1)];
  const rank = scales.size;
  if (!sameShape(down.shape, [rank, k]) || !sameShape(up.shape, [n, rank]) || !isFloat(up.dtype)) {
    throw new RangeError(
      `Cannot apply linear ${w} with down ${down}, up ${up} and scales ${scales}: ` +
        `they need [R, ${k}], [${n}, R] as f32, f16 or bf16, and [R]`,
    );
  }
  return linear(x, down, { gate: scales, name: "low rank" });
}

/** Rows of the result that one row of the gate multiplies, or nothing when the shapes do not fit. */
function rowsPerGate(gate: Tensor, shape: readonly number[]): number | undefined {
  const n = shape.at(-1)!;
  const rows = elementCount(shape.slice(0, -1));
  if (gate.dim(-1) !== n) return undefined;
  if (gate.size === n) return rows;
  if (sameShape(gate.shape, shape)) return 1;
  const isPerBatch = gate.dim(0) === shape[0] && gate.size === shape[0]! * n;
  return isPerBatch ? rows / shape[0]! : undefined;
}
