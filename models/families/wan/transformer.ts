/**
 * The Wan video diffusion transformer: self-attention, cross-attention and feed-forward, modulated by the timestep.
 * Source: Wan team 2025, "Wan: Open and Advanced Large-Scale Video Generative Models"; diffusers `WanTransformer3DModel`.
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
import { forEachSample, linearLayer, linearLayers } from "../../blocks/layers.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
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
  type GridOrigin,
  patchEmbedding,
  patchFeatures,
  rotaryConstants,
  tokenCount,
  type TokenGrid,
} from "./patches.ts";
import { hasTiles, TILE_GATE, type Tiles, tilesOf, withTiles } from "./tile_attention.ts";
import { hiddenSize } from "../../config.ts";

interface WanContext {
  /** One per block; those of the control, where there are some, come last. */
  readonly blocks: readonly CrossAttentionState[];
  /** Keys and values of the images that an image encoder saw, equal for all samples; their batch is 1. */
  readonly images?: readonly CrossAttentionState[] | undefined;
  /** u32 [batch]: context tokens to attend, the collapsed pad row included. */
  readonly lengths: Tensor;
  /** f32 [batch]: added to the logit of the last token, ln of the number of pad rows that it stands for. */
  readonly padLogit: Tensor;
}

interface WanControl {
  /** Patches of a clip to keep, one to redraw, and the mask between them, [1, tokens, features]. */
  readonly tokens: Tensor;
  /** f32 [1, 1, control blocks]: weight of what each of them adds. */
  readonly scales: Tensor;
}

export interface WanInputs {
  /** Patches of latents, [1 or batch, tokens, features]. */
  readonly tokens: Tensor;
  readonly grid: TokenGrid;
  readonly skipped?: readonly number[] | undefined;
  readonly riflex?: boolean;
  readonly origin?: GridOrigin;
  /** Rows of `timestepRows()`. */
  readonly timesteps: Tensor;
  /** u32, of `modulationIndices()` for the distinct timesteps: one, or one for each sample, or those of tokens. */
  readonly modulationIndices: Tensor;
  /** u32 [tokens] or [batch, tokens]: which of the distinct timesteps each token has, where they differ within a sample. */
  readonly tokenTimesteps?: Tensor;
  readonly context: WanContext;
  readonly control?: WanControl;
  readonly ranks?: Ranks;
}

/** How the queries of a block find their values: [batch, tokens, heads, head size] all of them, and the result. */
type Attend = (queries: Tensor, keys: Tensor, values: Tensor) => Tensor;

export interface WanPass {
  /** Before the first block, [1 or batch, own tokens, dim]. */
  readonly embedded: Tensor;
  readonly split: TokenSplit;
  block(index: number, x: Tensor, attend?: Attend): Tensor;
  /** What the tokens are to the self-attention of a block: keys at their positions, and values. */
  keysAndValues(index: number, x: Tensor): { readonly key: Tensor; readonly value: Tensor };
  head(x: Tensor): Tensor;
}

export function wanPass(
  graph: Graph,
  config: WanTransformerConfig,
  weights: WeightScope,
  inputs: WanInputs,
): WanPass {
  const { context, grid, tokenTimesteps, ranks = ALONE } = inputs;
  const split = new TokenSplit(ranks.sequence, [tokenCount(grid)]);
  const dim = hiddenSize(config);
  const batch = context.lengths.size;
  let embedded = patchEmbedding(config, weights, split.own(inputs.tokens), dim);
  // Until they see their prompts, samples with the same timestep are one; what goes from GPU to GPU has one shape.
  const isShared = !tokenTimesteps && inputs.modulationIndices.dim(1) === 1 && !ranks.layers;
  if (!isShared) embedded = forEachSample(embedded, batch);
  const tokenRows = tokenTimesteps &&
    forEachSample(split.own(tokenTimesteps.reshape(-1, tokenCount(grid))), batch);
  const table = modulationTable(config, weights, inputs.timesteps, inputs.modulationIndices);
  const { cos, sin } = rotaryConstants(graph, config, grid, inputs);
  const rotary = { cos: split.own(cos, 0), sin: split.own(sin, 0) };
  const names = blockNames(config);
  if (ranks.sequence && hasTiles(weights)) {
    throw new RangeError(
      "Cannot share the tokens of a model for video sparse attention between GPUs: its tiles need all of them; " +
        "leave --ulysses-degree and --ring-degree out",
    );
  }
  const tiles = hasTiles(weights) ? tilesOf(graph, grid) : undefined;
  const vectors = (index: number) =>
    modulationVectors(BLOCK_MODULATION, table, index * BLOCK_MODULATION.length, tokenRows);
  const head = modulationVectors(
    HEAD_MODULATION,
    table,
    names.length * BLOCK_MODULATION.length,
    tokenRows,
  );
  return {
    embedded,
    split,
    block(index, x, attend = (q, k, v) => split.attention(q, k, v, { name: "attn1" })) {
      const scope = weights.scope(names[index]!);
      const positions = { ...rotary, tiles };
      return wanBlock(config, scope, x, vectors(index), positions, context, index, attend);
    },
    keysAndValues(index, x) {
      const scope = weights.scope(names[index]!).scope("attn1");
      const [, key, value] = selfStates(config, scope, x, vectors(index), rotary);
      return { key, value };
    },
    head: (x) =>
      linearLayer(weights, "proj_out", x, patchFeatures(config, config.out_channels), {
        norm: { eps: config.eps, scale: head("scale"), shift: head("shift") },
      }),
  };
}

/** Predicts the velocity of the flow, in patches as the tokens are, [batch, tokens, features]. */
export function wanTransformer(
  graph: Graph,
  config: WanTransformerConfig,
  weights: WeightScope,
  inputs: WanInputs,
): Tensor {
  const { grid, ranks = ALONE } = inputs;
  const { embedded: x, split, block, head } = wanPass(graph, config, weights, inputs);
  const names = blockNames(config);
  const control = inputs.control &&
    { ...inputs.control, tokens: split.own(inputs.control.tokens) };
  const hints = control && controlHints(config, weights, control, x, block);
  let state = { x, hint: hints?.first };
  const layers = new LayerSplit(ranks.layers, new Array<number>(config.num_layers).fill(1));
  for (let layer = 0; layer < config.num_layers; layer++) {
    const place = config.vace_layers.indexOf(layer);
    state = layers.run(layer, state, ({ x, hint }) => {
      const isSkipped = inputs.skipped?.includes(layer);
      const y = isSkipped ? x : graph.scope(names[layer]!, () => block(layer, x));
      return place >= 0 ? hints!.addTo(y, hint!, place) : { x: y, hint };
    });
  }
  return layers.share(split.gather(head(state.x), tokenCount(grid)));
}

/** What VACE adds after some of the blocks; each is computed right before it is added, so that one is held at a time. */
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

type Modulation = (name: typeof BLOCK_MODULATION[number]) => Tensor;

function norm1(eps: number, modulation: Modulation) {
  return { eps, scale: modulation("scale_msa"), shift: modulation("shift_msa"), name: "norm1" };
}

function selfStates(
  config: WanTransformerConfig,
  attn1: WeightScope,
  x: Tensor,
  modulation: Modulation,
  rotary: { cos: Tensor; sin: Tensor },
): [queries: Tensor, keys: Tensor, values: Tensor] {
  const { eps } = config;
  const projected = linearLayers(attn1, ["to_q", "to_k", "to_v"], x, x.dim(-1), {
    norm: norm1(eps, modulation),
  });
  const rotated = normalizeQueriesAndKeys(config, attn1, slice(projected, 0, 0, 2), rotary);
  const part = (parts: Tensor, i: number) =>
    splitHeads(config, slice(parts, 0, i, i + 1).reshape(...x.shape));
  return [part(rotated, 0), part(rotated, 1), part(projected, 2)];
}

/** One block: x + gate·attn, x + cross-attn, x + gate·ffn. */
function wanBlock(
  config: WanTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  modulation: Modulation,
  positions: { cos: Tensor; sin: Tensor; tiles: Tiles | undefined },
  { blocks, images, lengths, padLogit }: WanContext,
  index: number,
  attend: Attend,
): Tensor {
  const { eps } = config;
  const dim = x.dim(-1);
  const attn1 = weights.scope("attn1");
  const states = selfStates(config, attn1, x, modulation, positions);
  const { tiles } = positions;
  const gate = tiles && linearLayer(weights, TILE_GATE, x, dim, { norm: norm1(eps, modulation) });
  const ofTokens = attend(...states);
  const attended = gate ? withTiles(tiles, ofTokens, gate, states) : ofTokens.reshape(...x.shape);
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
