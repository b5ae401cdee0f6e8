/** Blocks whose attention and feed-forward have a norm before and one behind, which is gated. */
import { rmsNorm, type RmsNormOptions, type Tensor, type WeightScope } from "../../runtime/mod.ts";
import { gluLayer, linearLayer } from "./layers.ts";

/** Each [1, 1, dim]; gates are the arguments of a tanh. */
interface GatedModulation {
  readonly scale_msa: Tensor;
  readonly gate_msa: Tensor;
  readonly scale_mlp: Tensor;
  readonly gate_mlp: Tensor;
}

/** Names of the attention's norms, and of the feed-forward's layers. */
interface GatedNames {
  readonly norms: readonly [before: string, behind: string];
  readonly feedForward: readonly [gate: string, up: string, down: string];
}

const NAMES: GatedNames = {
  norms: ["attention_norm1", "attention_norm2"],
  feedForward: ["w1", "w3", "w2"],
};

/** x + tanh(gate) · norm(attention(norm(x))), then the same with the feed-forward; nothing is gated without `modulation`. */
export function gatedBlock(
  weights: WeightScope,
  x: Tensor,
  { eps, hidden, names: { norms, feedForward: [gate, up, down] } = NAMES, attend, modulation }: {
    readonly eps: number;
    /** Features between the layers of the feed-forward. */
    readonly hidden: number;
    readonly names?: GatedNames;
    readonly attend: (h: Tensor) => Tensor;
    readonly modulation: GatedModulation | undefined;
  },
): Tensor {
  const dim = x.dim(-1);
  const norm = (
    name: string,
    input: Tensor,
    options: Pick<RmsNormOptions, "scale" | "gate" | "residual">,
  ) =>
    rmsNorm(input, {
      weight: weights.tensor(x.graph, `${name}.weight`, [dim]),
      eps,
      name,
      ...options,
    });
  const attended = attend(norm(norms[0], x, { scale: modulation?.scale_msa }));
  const y = norm(norms[1], attended, { gate: modulation?.gate_msa, residual: x });

  const normed = norm("ffn_norm1", y, { scale: modulation?.scale_mlp });
  const ffn = weights.scope("feed_forward");
  const fed = linearLayer(ffn, down, gluLayer(ffn, [gate, up], normed, hidden, "silu"), dim);
  return norm("ffn_norm2", fed, { gate: modulation?.gate_mlp, residual: y });
}
