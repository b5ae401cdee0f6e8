/**
 * The Wan video diffusion transformer: self-attention with 3-D rotary positions, cross-attention to the prompt,
 * and a feed-forward, each modulated by the timestep (adaLN).
 *
 * Source: Wan team 2025, "Wan: Open and Advanced Large-Scale Video Generative Models"; diffusers
 * `WanTransformer3DModel`, whose module names are the weight names.
 */
import {
  attention,
  type Graph,
  layerNorm,
  rmsNorm,
  rope,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";
import type { WanTransformerConfig } from "./config.ts";
import {
  BLOCK_MODULATION,
  forEachSample,
  HEAD_MODULATION,
  modulationVectors,
  timeConditioning,
} from "./modulation.ts";
import { patchEmbedding, patchVolume, rotaryConstants, unpatchify } from "./patches.ts";

/** Keys and values of one block's cross-attention, each [batch, context tokens, heads, headDim]. */
export interface CrossAttentionState {
  /** Normalised. */
  readonly key: Tensor;
  /** As projected. */
  readonly value: Tensor;
}

/** The prompt as the blocks see it; it depends on no step. */
export interface WanContext {
  /** One per block. */
  readonly blocks: readonly CrossAttentionState[];
  /** u32 [batch]: context tokens to attend, the collapsed pad row included. */
  readonly lengths: Tensor;
  /** f32 [batch]: added to the logit of the last token, ln of the number of pad rows that it stands for. */
  readonly padLogit: Tensor;
}

/** Inputs of one forward pass. */
export interface WanInputs {
  /** [1 or batch, in_channels, frames, height, width] in latent units. */
  readonly latents: Tensor;
  /** Sinusoidal embeddings of the distinct timesteps, [rows, freq_dim]. */
  readonly timestepEmbedding: Tensor;
  /**
   * u32 [tokens] or [batch, tokens]: the row of each token. Absent when all tokens of a sample have the same
   * timestep; there is one row for all samples then, or one for each.
   */
  readonly timestepRows?: Tensor;
  /** Of the same graph. */
  readonly context: WanContext;
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns [batch, out_channels, frames, height, width], batch as the context has it
 */
export function wanTransformer(
  graph: Graph,
  config: WanTransformerConfig,
  weights: WeightScope,
  inputs: WanInputs,
): Tensor {
  const dim = config.num_attention_heads * config.attention_head_dim;
  const batch = inputs.context.lengths.size;
  const { tokens: embedded, grid } = patchEmbedding(config, weights, inputs.latents, dim);
  let x = forEachSample(embedded, batch);
  const tokenRows = inputs.timestepRows &&
    forEachSample(inputs.timestepRows.reshape(-1, x.dim(1)), batch);
  const { modulation, temb } = timeConditioning(weights, inputs.timestepEmbedding, dim);
  const rotary = rotaryConstants(graph, config, grid);
  for (let layer = 0; layer < config.num_layers; layer++) {
    x = graph.scope(`blocks.${layer}`, () => {
      const block = weights.scope("blocks").scope(layer);
      const vectors = modulationVectors(BLOCK_MODULATION, block, modulation, tokenRows);
      return wanBlock(config, block, x, vectors, rotary, inputs.context, layer);
    });
  }
  const head = modulationVectors(HEAD_MODULATION, weights, temb.reshape(-1, 1, dim), tokenRows);
  const normed = layerNorm(x, { eps: config.eps, scale: head("scale"), shift: head("shift") });
  return unpatchify(
    config,
    linearLayer(weights, "proj_out", normed, patchVolume(config) * config.out_channels),
    grid,
  );
}

/**
 * Everything of the prompt that the blocks need: the text embedder, then every block's keys and values.
 *
 * @param text [batch, tokens, text_dim] of the text encoder, zero where there is no token
 */
export function wanContextStates(
  graph: Graph,
  config: WanTransformerConfig,
  weights: WeightScope,
  text: Tensor,
): CrossAttentionState[] {
  const dim = config.num_attention_heads * config.attention_head_dim;
  const embedder = weights.scope("condition_embedder").scope("text_embedder");
  const hidden = linearLayer(embedder, "linear_1", text, dim, { activation: "gelu_tanh" });
  const context = linearLayer(embedder, "linear_2", hidden, dim);
  return Array.from(
    { length: config.num_layers },
    (_, layer) =>
      graph.scope(`blocks.${layer}.attn2`, () => {
        const attn = weights.scope("blocks").scope(layer).scope("attn2");
        const key = normalizeHeads(config, attn, "norm_k", linearLayer(attn, "to_k", context, dim));
        return {
          key: splitHeads(config, key),
          value: splitHeads(config, linearLayer(attn, "to_v", context, dim)),
        };
      }),
  );
}

/** One block: x + gate·attn, x + cross-attn, x + gate·ffn. */
function wanBlock(
  config: WanTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  modulation: (name: typeof BLOCK_MODULATION[number]) => Tensor,
  rotary: { cos: Tensor; sin: Tensor },
  context: WanContext,
  layer: number,
): Tensor {
  const { eps } = config;
  const dim = x.dim(-1);
  const attn1 = weights.scope("attn1");
  const h = layerNorm(x, {
    eps,
    scale: modulation("scale_msa"),
    shift: modulation("shift_msa"),
    name: "norm1",
  });
  const rotated = (name: "q" | "k") => {
    const projected = linearLayer(attn1, `to_${name}`, h, dim);
    const heads = splitHeads(config, normalizeHeads(config, attn1, `norm_${name}`, projected));
    return rope(heads, rotary.cos, rotary.sin, { style: "interleaved" });
  };
  const value = splitHeads(config, linearLayer(attn1, "to_v", h, dim));
  const attended = attention(rotated("q"), rotated("k"), value, { name: "attn1" }).reshape(
    ...x.shape,
  );
  const afterSelf = linearLayer(attn1, "to_out.0", attended, dim, {
    gate: modulation("gate_msa"),
    residual: x,
  });

  const attn2 = weights.scope("attn2");
  const crossInput = config.cross_attn_norm
    ? layerNorm(afterSelf, {
      eps,
      weight: weights.tensor(x.graph, "norm2.weight", [dim]),
      bias: weights.tensor(x.graph, "norm2.bias", [dim]),
      name: "norm2",
    })
    : afterSelf;
  const query = normalizeHeads(
    config,
    attn2,
    "norm_q",
    linearLayer(attn2, "to_q", crossInput, dim),
  );
  const { key, value: crossValue } = context.blocks[layer]!;
  const crossed = attention(splitHeads(config, query), key, crossValue, {
    keyLengths: context.lengths,
    lastKeyBias: context.padLogit,
    name: "attn2",
  }).reshape(...x.shape);
  const afterCross = linearLayer(attn2, "to_out.0", crossed, dim, { residual: afterSelf });

  const ffnInput = layerNorm(afterCross, {
    eps,
    scale: modulation("scale_ffn"),
    shift: modulation("shift_ffn"),
    name: "norm3",
  });
  const ffn = weights.scope("ffn").scope("net");
  const hidden = linearLayer(ffn.scope(0), "proj", ffnInput, config.ffn_dim, {
    activation: "gelu_tanh",
  });
  return linearLayer(ffn, "2", hidden, dim, { gate: modulation("gate_ffn"), residual: afterCross });
}

/** RMS norm of queries or keys over all heads together. */
function normalizeHeads(
  config: WanTransformerConfig,
  weights: WeightScope,
  name: string,
  x: Tensor,
): Tensor {
  const weight = weights.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
  return rmsNorm(x, { weight, eps: config.eps, name });
}

/** [batch, tokens, dim] as [batch, tokens, heads, headDim]. */
function splitHeads(config: WanTransformerConfig, x: Tensor): Tensor {
  return x.reshape(x.dim(0), x.dim(1), config.num_attention_heads, config.attention_head_dim);
}
