/** Prompts and images as cross-attention takes them. */
import {
  elementwise,
  layerNorm,
  rmsNorm,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { WanTransformerConfig } from "./config.ts";
import { blockNames } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Keys and values of one block's cross-attention, each [batch, context tokens, heads, headDim]. */
export interface CrossAttentionState {
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Epsilon of the image embedder's norms: PyTorch's. */
const IMAGE_NORM_EPS = 1e-5;

/** Every block's keys and values of the prompt, [batch, tokens, text_dim], those of the control last. */
export function wanTextStates(
  config: WanTransformerConfig,
  weights: WeightScope,
  text: Tensor,
): CrossAttentionState[] {
  const dim = hiddenSize(config);
  const embedder = weights.scope("condition_embedder").scope("text_embedder");
  const hidden = linearLayer(embedder, "linear_1", text, dim, { activation: "gelu_tanh" });
  const context = linearLayer(embedder, "linear_2", hidden, dim);
  return crossStates(config, weights, context, ["to_k", "to_v", "norm_k"]);
}

/** As {@linkcode wanTextStates}, of what the image encoder sees, [images, tokens, image_dim]. */
export function wanImageStates(
  config: WanTransformerConfig,
  weights: WeightScope,
  states: Tensor,
): CrossAttentionState[] {
  const { graph } = states;
  const [images, tokens, width] = states.shape as [number, number, number];
  const dim = hiddenSize(config);
  const embedder = weights.scope("condition_embedder").scope("image_embedder");
  const affine = (name: string, size: number) => ({
    eps: IMAGE_NORM_EPS,
    weight: embedder.tensor(graph, `${name}.weight`, [size]),
    bias: embedder.tensor(graph, `${name}.bias`, [size]),
    name,
  });
  let x = states.reshape(1, images * tokens, width);
  if (config.pos_embed_seq_len !== null) {
    const positions = embedder.tensor(graph, "pos_embed", [1, config.pos_embed_seq_len, width]);
    x = elementwise("x + positions", { x, positions });
  }
  const net = embedder.scope("ff").scope("net");
  const hidden = linearLayer(net.scope(0), "proj", x, width, {
    norm: affine("norm1", width),
    activation: "gelu",
  });
  const context = layerNorm(linearLayer(net, "2", hidden, dim), affine("norm2", dim));
  return crossStates(config, weights, context, ["add_k_proj", "add_v_proj", "norm_added_k"]);
}

function crossStates(
  config: WanTransformerConfig,
  weights: WeightScope,
  context: Tensor,
  [keys, values, norm]: readonly [keys: string, values: string, norm: string],
): CrossAttentionState[] {
  const { graph } = context;
  const dim = hiddenSize(config);
  return blockNames(config).map((name) =>
    graph.scope(`${name}.attn2`, () => {
      const attn = weights.scope(`${name}.attn2`);
      const key = normalizeHeads(config, attn, norm, linearLayer(attn, keys, context, dim));
      return {
        key: splitHeads(config, key),
        value: splitHeads(config, linearLayer(attn, values, context, dim)),
      };
    })
  );
}

export function normalizeHeads(
  config: WanTransformerConfig,
  weights: WeightScope,
  name: string,
  x: Tensor,
): Tensor {
  const weight = weights.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
  return rmsNorm(x, { weight, eps: config.eps, name });
}

/** [batch, tokens, dim] as [batch, tokens, heads, headDim]. */
export function splitHeads(config: WanTransformerConfig, x: Tensor): Tensor {
  return x.reshape(x.dim(0), x.dim(1), config.num_attention_heads, config.attention_head_dim);
}

/** Rows of the prompt tensors, one of them padding: 16, 32, 64, …, so that programs are shared. */
export function contextRows(longest: number, maxLength: number): number {
  return Math.max(16, 2 ** Math.ceil(Math.log2(Math.min(longest + 1, maxLength))));
}

/** The rows to attend of every prompt. Rows after it are equal: one stands for all, with the logarithm of their number. */
export function contextPadding(
  tokens: readonly (readonly number[])[],
  maxLength: number,
): { readonly lengths: number[]; readonly padLogits: number[] } {
  const pads = tokens.map(({ length }) => maxLength - length);
  return {
    lengths: tokens.map(({ length }, i) => (pads[i]! > 0 ? length + 1 : length)),
    padLogits: pads.map((count) => (count > 0 ? Math.log(count) : 0)),
  };
}
