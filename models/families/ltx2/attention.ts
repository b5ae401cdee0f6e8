/** Attention of LTX-2: norms over all heads together, positions on all of a token's width, and gates of heads. */
import {
  attention,
  elementwise,
  rmsNorm,
  rope,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";

/** Epsilon of the norms of queries and keys, whatever the configuration says of the others. */
const HEAD_EPS = 1e-6;

interface AttentionOptions {
  readonly heads: number;
  /** The width of all heads together. */
  readonly dim: number;
  /** The width of what comes out; `dim` by default. */
  readonly outDim?: number;
  readonly ropeType: "interleaved" | "split";
  /** Where the queries are, [tokens, dim / 2]. */
  readonly rotary?: Rotation | undefined;
  /** Where the keys are; as the queries by default. */
  readonly keyRotary?: Rotation | undefined;
  /** Whether a gate of each head multiplies what it gives. */
  readonly isGated: boolean;
  /** Whether every token sees itself alone, as spatio-temporal guidance has it. */
  readonly isPerturbed?: boolean;
  /** What multiplies the result, and what it is added to. */
  readonly gate?: Tensor | undefined;
  readonly residual: Tensor;
}

/** `x` [1, tokens, …] sees `context`, itself by default. */
export function ltx2Attention(
  weights: WeightScope,
  x: Tensor,
  context: Tensor | undefined,
  options: AttentionOptions,
): Tensor {
  const { heads, dim, outDim = dim, ropeType, rotary, isGated, isPerturbed = false } = options;
  const seen = context ?? x;
  const split = (y: Tensor) => y.reshape(1, y.dim(1), heads, dim / heads);
  const value = linearLayer(weights, "to_v", seen, dim);
  const projected = (kind: "q" | "k", from: Tensor, positions: Rotation | undefined) => {
    const weight = weights.tensor(from.graph, `norm_${kind}.weight`, [dim]);
    const y = linearLayer(weights, `to_${kind}`, from, dim);
    const turns = positions && ropeType === "interleaved" && dim % 4 === 0;
    const normed = rmsNorm(y, {
      weight,
      eps: HEAD_EPS,
      name: `norm_${kind}`,
      ...(turns && { rotary: positions }),
    });
    return !positions || turns ? split(normed) : turned(normed, heads, ropeType, positions);
  };
  const attended = isPerturbed ? split(value) : attention(
    projected("q", x, rotary),
    projected("k", seen, options.keyRotary ?? rotary),
    split(value),
    { name: "attention" },
  );
  const gated = isGated
    ? elementwise("2.0 * x / (1.0 + exp(-g))", {
      x: attended,
      g: linearLayer(weights, "to_gate_logits", x, heads).reshape(1, x.dim(1), heads, 1),
    }, { name: "gated" })
    : attended;
  return linearLayer(weights, "to_out.0", gated.reshape(1, x.dim(1), dim), outDim, {
    ...(options.gate && { gate: options.gate }),
    residual: options.residual,
  });
}

/** Every head has angles of its own: interleaved, pairs are neighbours; split, they are as far apart as a head is long, halved. */
function turned(
  x: Tensor,
  heads: number,
  ropeType: AttentionOptions["ropeType"],
  { cos, sin }: Rotation,
): Tensor {
  const [, tokens, dim] = x.shape as [number, number, number];
  const [rows, size] = ropeType === "split" ? [tokens * heads, dim / heads] : [tokens, dim];
  const tables = [cos, sin].map((table) => table.reshape(rows, size / 2)) as [Tensor, Tensor];
  const style = ropeType === "split" ? "half" : "interleaved";
  return rope(x.reshape(1, rows, 1, size), ...tables, { style })
    .reshape(1, tokens, heads, dim / heads);
}

/** `x + ff(norm)`, the hidden layer four times as wide; biases where the weights have them. */
export function ltx2FeedForward(
  weights: WeightScope,
  x: Tensor,
  { gate, residual }: Pick<AttentionOptions, "gate" | "residual">,
): Tensor {
  const dim = x.dim(-1);
  const hidden = linearLayer(weights, "net.0.proj", x, 4 * dim, { activation: "gelu_tanh" });
  return linearLayer(weights, "net.2", hidden, dim, { ...(gate && { gate }), residual });
}
