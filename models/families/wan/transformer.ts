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
  elementwise,
  type Graph,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { forEachSample, linearLayer, linearLayers } from "../../layers.ts";
import { LayerSplit } from "../../layer_split.ts";
import { TokenSplit } from "../../token_split.ts";
import { ALONE, type Ranks } from "../../ranks.ts";
import type { WanTransformerConfig } from "./config.ts";
import { type CrossAttentionState, normalizeHeads, splitHeads } from "./context.ts";
import {
  BLOCK_MODULATION,
  blockNames,
  HEAD_MODULATION,
  modulationTable,
  modulationVectors,
} from "./modulation.ts";
import {
  patchEmbedding,
  patchFeatures,
  rotaryConstants,
  tokenCount,
  type TokenGrid,
} from "./patches.ts";

/** The prompt as the blocks see it; it depends on no step. */
interface WanContext {
  /** One per block; those of the control, where there are some, come last. */
  readonly blocks: readonly CrossAttentionState[];
  /** The same of the images that an image encoder saw, equal for all samples; their batch is 1. */
  readonly images?: readonly CrossAttentionState[] | undefined;
  /** u32 [batch]: context tokens to attend, the collapsed pad row included. */
  readonly lengths: Tensor;
  /** f32 [batch]: added to the logit of the last token, ln of the number of pad rows that it stands for. */
  readonly padLogit: Tensor;
}

/** What VACE steers a video by. */
interface WanControl {
  /** Patches of a clip to keep, one to make anew, and the mask between them, [1, tokens, features]. */
  readonly tokens: Tensor;
  /** f32 [1, 1, control blocks]: weight of what each of them adds. */
  readonly scales: Tensor;
}

/** Inputs of one forward pass. */
interface WanInputs {
  /** Patches of latents, [1 or batch, tokens, features]. */
  readonly tokens: Tensor;
  /** How they lie. */
  readonly grid: TokenGrid;
  /** Blocks that are left out. */
  readonly skipped?: readonly number[] | undefined;
  /** See {@linkcode rotaryConstants}. */
  readonly riflex?: boolean;
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
  /** Of a VACE model, which needs one. */
  readonly control?: WanControl;
  /** With which other GPUs it is computed; alone when left out. */
  readonly ranks?: Ranks;
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
  const { context, grid, tokenTimesteps, ranks = ALONE } = inputs;
  const split = new TokenSplit(ranks.sequence, [tokenCount(grid)]);
  const dim = config.num_attention_heads * config.attention_head_dim;
  const batch = context.lengths.size;
  let x = patchEmbedding(config, weights, split.own(inputs.tokens), dim);
  // Until they see their prompts, samples with the same timestep are one; what goes from GPU to GPU has one shape.
  const isShared = !tokenTimesteps && inputs.modulationIndices.dim(1) === 1 && !ranks.layers;
  if (!isShared) x = forEachSample(x, batch);
  const tokenRows = tokenTimesteps &&
    forEachSample(split.own(tokenTimesteps.reshape(-1, tokenCount(grid))), batch);
  const table = modulationTable(config, weights, inputs.timesteps, inputs.modulationIndices);
  const { cos, sin } = rotaryConstants(graph, config, grid, inputs.riflex);
  const rotary = { cos: split.own(cos, 0), sin: split.own(sin, 0) };
  const names = blockNames(config);
  const block = (index: number, x: Tensor) => {
    const first = index * BLOCK_MODULATION.length;
    const vectors = modulationVectors(BLOCK_MODULATION, table, first, tokenRows);
    const scope = weights.scope(names[index]!);
    return wanBlock(config, scope, x, vectors, rotary, context, index, split);
  };
  const control = inputs.control &&
    { ...inputs.control, tokens: split.own(inputs.control.tokens) };
  const hints = control && controlHints(config, weights, control, x, block);
  let hint = hints?.first;
  const layers = new LayerSplit(ranks.layers, new Array<number>(config.num_layers).fill(1));
  for (let layer = 0; layer < config.num_layers; layer++) {
    const place = config.vace_layers.indexOf(layer);
    ({ x, hint } = layers.run(layer, { x, hint }, ({ x, hint }) => {
      const isSkipped = inputs.skipped?.includes(layer);
      const y = isSkipped ? x : graph.scope(names[layer]!, () => block(layer, x));
      return place >= 0 ? hints!.addTo(y, hint!, place) : { x: y, hint };
    }));
  }
  const first = names.length * BLOCK_MODULATION.length;
  const head = modulationVectors(HEAD_MODULATION, table, first, tokenRows);
  const result = linearLayer(weights, "proj_out", x, patchFeatures(config, config.out_channels), {
    norm: { eps: config.eps, scale: head("scale"), shift: head("shift") },
  });
  return layers.share(split.gather(result, tokenCount(grid)));
}

/**
 * What VACE adds to the tokens after some of the blocks. Each is computed right before it is added, from the one before,
 * so that one is held at a time.
 *
 * @param x the tokens before the first block
 * @param block runs a block by its index among all
 */
function controlHints(
  config: WanTransformerConfig,
  weights: WeightScope,
  { tokens, scales }: WanControl,
  x: Tensor,
  block: (index: number, x: Tensor) => Tensor,
): {
  readonly first: Tensor;
  addTo(x: Tensor, hint: Tensor, place: number): { x: Tensor; hint: Tensor };
} {
  const { graph } = x;
  const dim = x.dim(-1);
  const embedded = patchEmbedding(config, weights, tokens, dim, "vace_patch_embedding");
  const scope = (place: number) => weights.scope(`vace_blocks.${place}`);
  const first = linearLayer(scope(0), "proj_in", forEachSample(embedded, x.dim(0)), dim, {
    residual: x,
  });
  return {
    first,
    addTo: (x, before, place) =>
      graph.scope(`vace_blocks.${place}`, () => {
        const own = block(config.num_layers + place, before);
        const hint = linearLayer(scope(place), "proj_out", own, dim);
        const scale = slice(scales, 2, place, place + 1);
        return { x: elementwise("x + scale * hint", { x, scale, hint }), hint: own };
      }),
  };
}

/** One block: x + gate·attn, x + cross-attn, x + gate·ffn. */
function wanBlock(
  config: WanTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  modulation: (name: typeof BLOCK_MODULATION[number]) => Tensor,
  rotary: { cos: Tensor; sin: Tensor },
  { blocks, images, lengths, padLogit }: WanContext,
  index: number,
  split: TokenSplit,
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
  const attended = split.attention(part(rotated, 0), part(rotated, 1), part(projected, 2), {
    name: "attn1",
  }).reshape(...x.shape);
  const afterSelf = forEachSample(
    linearLayer(attn1, "to_out.0", attended, dim, { gate: modulation("gate_msa"), residual: x }),
    lengths.size,
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
  const queries = splitHeads(config, query);
  const text = blocks[index]!;
  const image = images?.[index];
  const fromText = attention(queries, text.key, text.value, {
    keyLengths: lengths,
    lastKeyBias: padLogit,
    name: "attn2",
  });
  const each = (x: Tensor) => forEachSample(x, lengths.size);
  const crossed = image
    ? elementwise("text + image", {
      text: fromText,
      image: attention(queries, each(image.key), each(image.value), { name: "attn2 image" }),
    })
    : fromText;
  const afterCross = linearLayer(
    attn2,
    "to_out.0",
    crossed.reshape(...afterSelf.shape),
    dim,
    { residual: afterSelf },
  );

  const ffn = weights.scope("ffn").scope("net");
  const hidden = linearLayer(ffn.scope(0), "proj", afterCross, config.ffn_dim, {
    norm: { eps, scale: modulation("scale_ffn"), shift: modulation("shift_ffn"), name: "norm3" },
    activation: "gelu_tanh",
  });
  return linearLayer(ffn, "2", hidden, dim, { gate: modulation("gate_ffn"), residual: afterCross });
}

/** RMS norm of queries and keys over all heads together, [2, batch, tokens, dim], each with its own weight, and their rotary positions. */
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
