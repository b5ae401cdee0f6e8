/**
 * The Wan video diffusion transformer: self-attention with 3-D rotary positions, cross-attention to the prompt,
 * and a feed-forward, each modulated by the timestep (adaLN).
 *
 * Source: Wan team 2025, "Wan: Open and Advanced Large-Scale Video Generative Models"; diffusers
 * `WanTransformer3DModel`, whose module names are the weight names.
 */
import {
  attention,
  concat,
  type Graph,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer, linearLayers } from "../../layers.ts";
import type { WanTransformerConfig } from "./config.ts";
import {
  BLOCK_MODULATION,
  forEachSample,
  HEAD_MODULATION,
  modulationTable,
  modulationVectors,
} from "./modulation.ts";
import { patchEmbedding, patchFeatures, rotaryConstants, type TokenGrid } from "./patches.ts";

/** Keys and values of one block's cross-attention, each [batch, context tokens, heads, headDim]. */
interface CrossAttentionState {
  /** Normalised. */
  readonly key: Tensor;
  /** As projected. */
  readonly value: Tensor;
}

/** The prompt as the blocks see it; it depends on no step. */
interface WanContext {
  /** One per block. */
  readonly blocks: readonly CrossAttentionState[];
  /** u32 [batch]: context tokens to attend, the collapsed pad row included. */
  readonly lengths: Tensor;
  /** f32 [batch]: added to the logit of the last token, ln of the number of pad rows that it stands for. */
  readonly padLogit: Tensor;
}

/** Inputs of one forward pass. */
interface WanInputs {
  /** Patches of latents, [1 or batch, tokens, features]. */
  readonly tokens: Tensor;
  /** How they lie. */
  readonly grid: TokenGrid;
  /** Of `timestepRows()`. */
  readonly timesteps: Tensor;
  /** u32, of `modulationIndices()` for the distinct timesteps: one, or one for each sample, or those of tokens. */
  readonly modulationIndices: Tensor;
  /**
   * u32 [tokens] or [batch, tokens]: which of the distinct timesteps each token has. Absent when all tokens of a
   * sample have the same.
   */
  readonly tokenTimesteps?: Tensor;
  /** Of the same graph. */
  readonly context: WanContext;
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns patches as the tokens are, [batch, tokens, features], batch as the context has it
 */
export function wanTransformer(
  graph: Graph,
  config: WanTransformerConfig,
  weights: WeightScope,
  inputs: WanInputs,
): Tensor {
  const { context, grid, tokenTimesteps } = inputs;
  const dim = config.num_attention_heads * config.attention_head_dim;
  const batch = context.lengths.size;
  let x = patchEmbedding(config, weights, inputs.tokens, dim);
  // Until they see their prompts, samples with the same timestep are one.
  const isShared = !tokenTimesteps && inputs.modulationIndices.dim(1) === 1;
  if (!isShared) x = forEachSample(x, batch);
  const tokenRows = tokenTimesteps && forEachSample(tokenTimesteps.reshape(-1, x.dim(1)), batch);
  const table = modulationTable(config, weights, inputs.timesteps, inputs.modulationIndices);
  const rotary = rotaryConstants(graph, config, grid);
  for (let layer = 0; layer < config.num_layers; layer++) {
    x = graph.scope(`blocks.${layer}`, () => {
      const block = weights.scope("blocks").scope(layer);
      const first = layer * BLOCK_MODULATION.length;
      const vectors = modulationVectors(BLOCK_MODULATION, table, first, tokenRows);
      return wanBlock(config, block, x, vectors, rotary, context, layer);
    });
  }
  const first = config.num_layers * BLOCK_MODULATION.length;
  const head = modulationVectors(HEAD_MODULATION, table, first, tokenRows);
  return linearLayer(weights, "proj_out", x, patchFeatures(config, config.out_channels), {
    norm: { eps: config.eps, scale: head("scale"), shift: head("shift") },
  });
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
  const projected = linearLayers(attn1, ["to_q", "to_k", "to_v"], x, dim, {
    norm: { eps, scale: modulation("scale_msa"), shift: modulation("shift_msa"), name: "norm1" },
  });
  const rotated = normalizeQueriesAndKeys(config, attn1, slice(projected, 0, 0, 2), rotary);
  const part = (parts: Tensor, i: number) =>
    splitHeads(config, slice(parts, 0, i, i + 1).reshape(...x.shape));
  const attended = attention(part(rotated, 0), part(rotated, 1), part(projected, 2), {
    name: "attn1",
  }).reshape(...x.shape);
  const afterSelf = forEachSample(
    linearLayer(attn1, "to_out.0", attended, dim, { gate: modulation("gate_msa"), residual: x }),
    context.lengths.size,
  );

  const attn2 = weights.scope("attn2");
  const norm2 = config.cross_attn_norm && {
    eps,
    weight: weights.tensor(x.graph, "norm2.weight", [dim]),
    bias: weights.tensor(x.graph, "norm2.bias", [dim]),
    name: "norm2",
  };
  const query = normalizeHeads(
    config,
    attn2,
    "norm_q",
    linearLayer(attn2, "to_q", afterSelf, dim, norm2 ? { norm: norm2 } : {}),
  );
  const { key, value: crossValue } = context.blocks[layer]!;
  const crossed = attention(splitHeads(config, query), key, crossValue, {
    keyLengths: context.lengths,
    lastKeyBias: context.padLogit,
    name: "attn2",
  }).reshape(...afterSelf.shape);
  const afterCross = linearLayer(attn2, "to_out.0", crossed, dim, { residual: afterSelf });

  const ffn = weights.scope("ffn").scope("net");
  const hidden = linearLayer(ffn.scope(0), "proj", afterCross, config.ffn_dim, {
    norm: { eps, scale: modulation("scale_ffn"), shift: modulation("shift_ffn"), name: "norm3" },
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

/** The same for both, [2, batch, tokens, dim], each with its own weight, and their rotary positions. */
function normalizeQueriesAndKeys(
  config: WanTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  rotary: { cos: Tensor; sin: Tensor },
): Tensor {
  const parts = ["norm_q.weight", "norm_k.weight"].map((name) => ({ name, shape: [x.dim(-1)] }));
  const weight = weights.stack(x.graph, parts) ??
    concat(parts.map(({ name, shape }) => weights.tensor(x.graph, name, shape).reshape(1, -1)), 0);
  return rmsNorm(x, { weight, eps: config.eps, rotary, name: "norm_qk" });
}

/** [batch, tokens, dim] as [batch, tokens, heads, headDim]. */
function splitHeads(config: WanTransformerConfig, x: Tensor): Tensor {
  return x.reshape(x.dim(0), x.dim(1), config.num_attention_heads, config.attention_head_dim);
}
