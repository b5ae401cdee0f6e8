/**
 * The ERNIE-Image diffusion transformer: one sequence of image and text, and one modulation for all blocks.
 * Source: Baidu 2026, ERNIE-Image; diffusers `ErnieImageTransformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  type StreamModulation,
  takeVectors,
} from "../../blocks/double_stream.ts";
import { rotaryTables, timestepConstant } from "../../blocks/embeddings.ts";
import {
  embeddingLayers,
  gluLayer,
  linearLayer,
  linearLayers,
  patchEmbeddingLayer,
} from "../../blocks/layers.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import type { ErnieImageTransformerConfig } from "./config.ts";

interface ErnieImageInputs {
  /** Prompt from {@linkcode ernieImageContext}: [1, text tokens, hidden_size]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** All timesteps from {@linkcode timestepTable}. */
  readonly times: Tensor;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** What both halves of a head are multiplied by, [1, tokens, 1, 2, head size / 2] each; the second, once they are swapped. */
interface HalfRotation {
  readonly own: Tensor;
  readonly swapped: Tensor;
}

/** The prompt as the blocks take it, of the states of the text encoder, [1, text tokens, text_in_dim]. */
export function ernieImageContext(
  { hidden_size, text_in_dim }: ErnieImageTransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return text_in_dim === hidden_size
    ? states
    : linearLayer(weights, "text_proj", states, hidden_size);
}

/** What the blocks and the last norm need of timesteps, 0 to 1000: [timesteps, 8 · hidden_size]. */
export function timestepTable(
  graph: Graph,
  { hidden_size: dim }: ErnieImageTransformerConfig,
  weights: WeightScope,
  timesteps: ArrayLike<number>,
): Tensor {
  const cosines = timestepConstant(graph, timesteps, dim);
  // Here the sines come first.
  const embedded = concat([slice(cosines, 1, dim / 2, dim), slice(cosines, 1, 0, dim / 2)], 1);
  const temb = embeddingLayers(weights.scope("time_embedding"), embedded, dim);
  const activated = elementwise("act_silu(t)", { t: temb });
  const rows = DOUBLE_MODULATION.length * dim;
  const shared = linearLayer(weights, "adaLN_modulation.1", activated, rows);
  return concat([shared, linearLayer(weights, "final_norm.linear", temb, 2 * dim)], 1);
}

/** Predicts the velocity of the flow, [1, tokens, in_channels]. */
export function ernieImageTransformer(
  graph: Graph,
  config: ErnieImageTransformerConfig,
  weights: WeightScope,
  { context, sample, grid, times, step, ranks = ALONE }: ErnieImageInputs,
): Tensor {
  const { hidden_size: dim, num_layers: count, in_channels, eps } = config;
  const [textTokens, tokens] = [context.dim(1), tokenCount(grid)];
  const split = new TokenSplit(ranks.sequence, [tokens, textTokens]);
  const image = Array.from(
    { length: tokens },
    (_, i) => [textTokens, Math.floor(i / grid.columns), i % grid.columns],
  );
  const text = Array.from({ length: textTokens }, (_, place) => [place, 0, 0]);
  const rotation = halfRotation(graph, config, [...split.ownOf(image), ...split.ownOf(text)]);
  const table = gather(times, step).reshape(DOUBLE_MODULATION.length + 2, 1, dim);
  const take = takeVectors(table);
  const [vectors, out] = [take(DOUBLE_MODULATION), take(OUT_MODULATION)];
  const layers = new LayerSplit(ranks.layers, new Array<number>(count).fill(1));
  const embedded = patchEmbeddingLayer(weights, "x_embedder.proj", split.own(sample), dim, {
    channels: in_channels,
    patch: [1, 1],
  });
  let x = concat([embedded, split.own(context)], 1);
  for (let layer = 0; layer < count; layer++) {
    x = layers.run(layer, x, (x) =>
      graph.scope(`layers.${layer}`, () => {
        const block = weights.scope("layers").scope(layer);
        return ernieImageBlock(config, block, x, { vectors, rotation, split });
      }));
  }
  const result = split.gatherFirst(
    x,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "final_linear", x, in_channels, {
        norm: { eps, ...out, name: "final_norm" },
      }),
  );
  return layers.share(result);
}

/** x + gate · attention(norm(x)), then the same with the feed-forward. */
function ernieImageBlock(
  { hidden_size: dim, num_attention_heads: heads, ffn_hidden_size, eps }:
    ErnieImageTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { vectors: v, rotation, split }: {
    readonly vectors: StreamModulation;
    readonly rotation: HalfRotation;
    readonly split: TokenSplit;
  },
): Tensor {
  const norm = (scope: WeightScope, name: string, x: Tensor, scale?: Tensor, shift?: Tensor) => {
    const weight = scope.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
    return rmsNorm(x, { weight, eps, scale, shift, name });
  };
  const attn = weights.scope("self_attention");
  const h = norm(weights, "adaLN_sa_ln", x, v.scale_msa, v.shift_msa);
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], h, dim);
  const [query, key, value] = [0, 1, 2].map((i) =>
    slice(joined, 0, i, i + 1).reshape(1, x.dim(1), heads, dim / heads)
  ) as [Tensor, Tensor, Tensor];
  const placed = (name: string, x: Tensor) => rotateHalves(norm(attn, name, x), rotation);
  const attended = split.attention(placed("norm_q", query), placed("norm_k", key), value);
  const y = linearLayer(attn, "to_out.0", attended.reshape(...x.shape), dim, {
    gate: v.gate_msa,
    residual: x,
  });
  const mlp = weights.scope("mlp");
  const h2 = norm(weights, "adaLN_mlp_ln", y, v.scale_mlp, v.shift_mlp);
  const hidden = gluLayer(mlp, ["gate_proj", "up_proj"], h2, ffn_hidden_size, "gelu");
  return linearLayer(mlp, "linear_fc2", hidden, dim, { gate: v.gate_mlp, residual: y });
}

/**
 * Angle ⌊i/2⌋ belongs to element i of a head, which pairs with the one of the other half, whose angle is another: not a
 * rotation, but what the model was trained with.
 */
function halfRotation(
  graph: Graph,
  { rope_axes_dim, rope_theta }: ErnieImageTransformerConfig,
  places: readonly (readonly number[])[],
): HalfRotation {
  const { cos, sin } = rotaryTables(places, rope_axes_dim, rope_theta);
  const dim = 2 * cos.length / places.length;
  const shape = [1, places.length, 1, 2, dim / 2];
  const wide = (values: Float32Array, sign: number) =>
    Float32Array.from(
      { length: 2 * values.length },
      (_, i) => values[Math.floor(i / 2)]! * (i % dim < dim / 2 ? sign : 1),
    );
  return {
    own: graph.constant("rope_own", shape, "f32", wide(cos, 1)),
    swapped: graph.constant("rope_swapped", shape, "f32", wide(sin, -1)),
  };
}

function rotateHalves(x: Tensor, { own, swapped }: HalfRotation): Tensor {
  const [batch, tokens, heads, dim] = x.shape as [number, number, number, number];
  const halves = x.reshape(batch, tokens, heads, 2, dim / 2);
  const other = concat([slice(halves, 3, 1, 2), slice(halves, 3, 0, 1)], 3);
  const turned = elementwise("x * own + other * swapped", { x: halves, other, own, swapped });
  return turned.reshape(...x.shape);
}
