/** A layer of CLIP's towers, which are alike for images and texts. */
import { attention, type Graph, slice, type Tensor, type WeightScope } from "../../runtime/mod.ts";
import { linearLayer, linearLayers } from "./layers.ts";

interface ClipLayerConfig {
  readonly intermediate_size: number;
  readonly num_attention_heads: number;
  readonly hidden_act: "gelu" | "gelu_tanh" | "quick_gelu";
  readonly layer_norm_eps: number;
}

export function clipLayer(
  config: ClipLayerConfig,
  weights: WeightScope,
  x: Tensor,
  { causal }: { readonly causal: boolean },
): Tensor {
  const { layer_norm_eps: eps, hidden_act: activation, num_attention_heads: heads } = config;
  const { graph, shape } = x;
  const dim = x.dim(-1);
  const self = weights.scope("self_attn");
  const projected = linearLayers(self, ["q_proj", "k_proj", "v_proj"], x, dim, {
    norm: { eps, ...affine(graph, weights, "layer_norm1", dim) },
  });
  const part = (i: number) =>
    slice(projected, 0, i, i + 1).reshape(shape[0]!, shape[1]!, heads, dim / heads);
  const attended = attention(part(0), part(1), part(2), { causal, name: "self_attn" })
    .reshape(...shape);
  const y = linearLayer(self, "out_proj", attended, dim, { residual: x });
  const mlp = weights.scope("mlp");
  const hidden = linearLayer(mlp, "fc1", y, config.intermediate_size, {
    norm: { eps, ...affine(graph, weights, "layer_norm2", dim) },
    activation,
  });
  return linearLayer(mlp, "fc2", hidden, dim, { residual: y });
}

export function affine(
  graph: Graph,
  weights: WeightScope,
  name: string,
  dim: number,
): { weight: Tensor; bias: Tensor; name: string } {
  const scope = weights.scope(name);
  return {
    weight: scope.tensor(graph, "weight", [dim]),
    bias: scope.tensor(graph, "bias", [dim]),
    name,
  };
}
