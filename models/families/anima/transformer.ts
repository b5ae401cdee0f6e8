/**
 * Cosmos-Predict2's diffusion transformer, as Anima has it, for images alone.
 * Source: NVIDIA 2025, "World Simulation with Video Foundation Models for Physical AI"; diffusers `CosmosTransformer3DModel`,
 * whose module names are the weight names.
 */
import {
  attention,
  concat,
  gather,
  type Graph,
  rmsNorm,
  rope,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { SINGLE_MODULATION, takeVectors, type Vectors } from "../../blocks/double_stream.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import { linearLayer, linearLayers } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { type AnimaTransformerConfig, PATCH_SIDE } from "./config.ts";

const EPS = 1e-6;
/** Epsilon of the norms of queries and keys. */
const HEAD_EPS = 1e-5;
const THETA = 10000;

/** The norms of a block's three branches. */
const NORMS = ["norm1", "norm2", "norm3"] as const;

/** Vectors of all timesteps: those of each block's norms, those of the last norm; [timesteps, 3 or 2 · dim] each. */
export interface ModulationTables {
  readonly blocks: readonly Readonly<Record<typeof NORMS[number], Tensor>>[];
  readonly out: Tensor;
}

type Three = [Tensor, Tensor, Tensor];

interface AnimaInputs extends ModulationTables {
  /** Prompt from the text conditioner: [1, text tokens, text_embed_dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, 4 · in_channels], of (channel, row, column). */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Row of the tables, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** Everything that the blocks need of timesteps, [timesteps, dim]. */
export function modulationTables(
  config: AnimaTransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): ModulationTables {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_embed");
  const t = embedder.scope("t_embedder");
  const hidden = linearLayer(t, "linear_1", embedding, dim, { activation: "silu" });
  const temb = linearLayer(t, "linear_2", hidden, 3 * dim);
  const activated = rmsNorm(embedding, {
    weight: embedder.tensor(embedding.graph, "norm.weight", [dim]),
    eps: EPS,
    activation: "silu",
    name: "norm",
  });
  const vectors = (scope: WeightScope, rows: number) => {
    const low = linearLayer(scope, "linear_1", activated, config.adaln_lora_dim);
    const residual = slice(temb, 1, 0, rows * dim);
    return linearLayer(scope, "linear_2", low, rows * dim, { residual });
  };
  const blocks = Array.from({ length: config.num_layers }, (_, layer) => {
    const block = weights.scope("transformer_blocks").scope(layer);
    const [norm1, norm2, norm3] = NORMS.map((name) => vectors(block.scope(name), 3)) as Three;
    return { norm1, norm2, norm3 };
  });
  return { blocks, out: vectors(weights.scope("norm_out"), 2) };
}

/** Predicts the velocity of the flow, in patches like those of the sample, but of (row, column, channel). */
export function animaTransformer(
  graph: Graph,
  config: AnimaTransformerConfig,
  weights: WeightScope,
  { context, sample, grid, step, blocks, out, ranks = ALONE }: AnimaInputs,
): Tensor {
  const dim = hiddenSize(config);
  const tokens = tokenCount(grid);
  const split = new TokenSplit(ranks.sequence, [tokens]);
  const places = Array.from(
    { length: tokens },
    (_, i) => [0, Math.floor(i / grid.columns), i % grid.columns],
  );
  const rotary = rotaryOf(graph, config, split.ownOf(places));
  const layers = new LayerSplit(ranks.layers, blocks.map(() => 1));
  const rowOf = <const Names extends readonly string[]>(table: Tensor, names: Names) =>
    takeVectors(gather(table, step).reshape(names.length, 1, dim))(names);
  // The last channel of a patch tells padding, of which an image has none.
  const mask = new Float32Array(tokens * PATCH_SIDE ** 2);
  const masked = concat([
    sample,
    graph.constant("padding mask", [1, tokens, PATCH_SIDE ** 2], "f32", mask),
  ], 2);
  let x = linearLayer(weights.scope("patch_embed"), "proj", split.own(masked), dim);
  blocks.forEach((tables, layer) => {
    x = layers.run(layer, x, (x) =>
      graph.scope(`transformer_blocks.${layer}`, () => {
        const block = weights.scope("transformer_blocks").scope(layer);
        const vectors = NORMS.map((name) => rowOf(tables[name], SINGLE_MODULATION));
        return animaBlock(config, block, x, { context, vectors, rotary, split });
      }));
  });
  const result = split.gatherFirst(
    x,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, PATCH_SIDE ** 2 * config.out_channels, {
        norm: { eps: EPS, ...rowOf(out, ["shift", "scale"]), name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** x + gate · self-attention, x + gate · cross-attention, x + gate · feed-forward, each of the modulated norm of x. */
function animaBlock(
  config: AnimaTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { context, vectors, rotary, split }: {
    readonly context: Tensor;
    readonly vectors: readonly Vectors<typeof SINGLE_MODULATION>[];
    readonly rotary: Rotation;
    readonly split: TokenSplit;
  },
): Tensor {
  const dim = hiddenSize(config);
  const headDim = config.attention_head_dim;
  const [self, cross, feed] = vectors.map(({ shift, scale, gate }, i) => ({
    norm: { eps: EPS, shift, scale, name: `norm${i + 1}` },
    gate,
  }));
  const heads = (projected: Tensor) =>
    projected.reshape(1, -1, config.num_attention_heads, headDim);
  const normed = (attn: WeightScope, name: string, projected: Tensor) => {
    const weight = attn.tensor(x.graph, `${name}.weight`, [headDim]);
    return rmsNorm(heads(projected), { weight, eps: HEAD_EPS, name });
  };
  const placed = (own: Tensor) => rope(own, rotary.cos, rotary.sin, { style: "half" });

  const attn1 = weights.scope("attn1");
  const all = linearLayers(attn1, ["to_q", "to_k", "to_v"], x, dim, { norm: self!.norm });
  const [q, k, v] = [0, 1, 2].map((i) => slice(all, 0, i, i + 1)) as Three;
  const attended = split.attention(
    placed(normed(attn1, "norm_q", q)),
    placed(normed(attn1, "norm_k", k)),
    heads(v),
  ).reshape(...x.shape);
  const y = linearLayer(attn1, "to_out.0", attended, dim, { gate: self!.gate, residual: x });

  const attn2 = weights.scope("attn2");
  const query = linearLayer(attn2, "to_q", y, dim, { norm: cross!.norm });
  const keyValue = linearLayers(attn2, ["to_k", "to_v"], context, dim);
  const crossed = attention(
    normed(attn2, "norm_q", query),
    normed(attn2, "norm_k", slice(keyValue, 0, 0, 1)),
    heads(slice(keyValue, 0, 1, 2)),
    { name: "attn2" },
  ).reshape(...x.shape);
  const z = linearLayer(attn2, "to_out.0", crossed, dim, { gate: cross!.gate, residual: y });

  const net = weights.scope("ff.net");
  const hidden = linearLayer(net, "0.proj", z, Math.trunc(dim * config.mlp_ratio), {
    norm: feed!.norm,
    activation: "gelu",
  });
  return linearLayer(net, "2", hidden, dim, { gate: feed!.gate, residual: z });
}

/** Positions in time, row and column; each axis has frequencies that reach further by its scale. */
function rotaryOf(
  graph: Graph,
  { attention_head_dim, rope_scale }: AnimaTransformerConfig,
  places: readonly (readonly number[])[],
): Rotation {
  const side = Math.floor(attention_head_dim / 6) * 2;
  const axes = [attention_head_dim - 2 * side, side, side];
  const thetas = axes.map((dim, axis) => THETA * rope_scale[axis]! ** (dim / (dim - 2)));
  return rotaryConstants(graph, "rope", places, axes, thetas);
}
