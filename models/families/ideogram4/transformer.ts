/**
 * The Ideogram 4 diffusion transformer: text and image are one sequence for all layers; another one of it sees no text.
 * Source: Ideogram 2026, Ideogram 4; diffusers `Ideogram4Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  rmsNorm,
  rope,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { takeVectors } from "../../blocks/double_stream.ts";
import { angleConstants, unitTimestep } from "../../blocks/embeddings.ts";
import { gatedBlock } from "../../blocks/gated_block.ts";
import { linearLayer, linearLayers, wideAttention } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { AXES, type Ideogram4TransformerConfig } from "./config.ts";

const { fround } = Math;

/** Epsilon of the norms of queries and keys, and of those of the ends, whatever the configuration says of the others. */
const [HEAD_EPS, END_EPS] = [1e-5, 1e-6];
/** Where rows and columns of an image begin, and its place: no text is so long. */
const IMAGE_POSITION = 65536;
/** How far the timestep is stretched, from 0 to 1. */
const TIME_SCALE = 1e4;

const BLOCK_MODULATION = ["scale_msa", "gate_msa", "scale_mlp", "gate_mlp"] as const;

interface Ideogram4Inputs {
  /** Prompt from {@linkcode ideogram4Context}: [1, text tokens, dim]; nothing where no text is seen. */
  readonly context?: Tensor | undefined;
  /** Normalised packed latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** All timesteps from {@linkcode timestepTable}. */
  readonly times: Tensor;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** The prompt as the layers take it, of states of `layers` layers side by side, [1, text tokens, layers · their width]. */
export function ideogram4Context(
  graph: Graph,
  config: Ideogram4TransformerConfig,
  weights: WeightScope,
  states: Tensor,
  layers: number,
): Tensor {
  const features = rearrange(states, "1 t (l d) -> 1 t (d l)", { l: layers });
  const weight = weights.tensor(graph, "llm_cond_norm.weight", [config.llm_features_dim]);
  const normed = rmsNorm(features, { weight, eps: END_EPS, name: "llm_cond_norm" });
  return marked(
    config,
    weights,
    linearLayer(weights, "llm_cond_proj", normed, hiddenSize(config)),
    0,
  );
}

/** What the layers need of timesteps, 1000 to 0 as in diffusers: [timesteps, adaln_dim]. */
export function timestepTable(
  graph: Graph,
  config: Ideogram4TransformerConfig,
  weights: WeightScope,
  timesteps: ArrayLike<number>,
): Tensor {
  const dim = hiddenSize(config);
  const embedded = graph.constant("timesteps", [timesteps.length, dim], "f32", () => {
    const half = dim / 2;
    const slope = fround(-Math.log(TIME_SCALE) / (half - 1));
    return Float32Array.from({ length: timesteps.length * dim }, (_, i) => {
      const [row, column] = [Math.floor(i / dim), i % dim];
      // The model's time goes from noise, 0, to the image, 1.
      const time = fround(1 - unitTimestep(timesteps[row]!));
      const frequency = fround(Math.exp(fround(column % half * slope)));
      const angle = fround(fround(TIME_SCALE * time) * frequency);
      return column < half ? Math.sin(angle) : Math.cos(angle);
    });
  });
  const embedding = weights.scope("t_embedding");
  const hidden = linearLayer(embedding, "mlp_in", embedded, dim, { activation: "silu" });
  const time = linearLayer(embedding, "mlp_out", hidden, dim);
  return linearLayer(weights, "adaln_proj", time, config.adaln_dim, { activation: "silu" });
}

/** Predicts the negated velocity of the flow, [1, tokens, in_channels]. */
export function ideogram4Transformer(
  graph: Graph,
  config: Ideogram4TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, times, step, ranks = ALONE }: Ideogram4Inputs,
): Tensor {
  const { num_layers: count, in_channels } = config;
  const dim = hiddenSize(config);
  const condition = gather(times, step);
  const image = marked(config, weights, linearLayer(weights, "input_proj", sample, dim), 1);
  const text = Array.from(
    { length: context?.dim(1) ?? 0 },
    (_, place) => new Array<number>(AXES).fill(place),
  );
  const rotary = rotaryAngles(graph, config, [...text, ...imagePositions(grid)]);
  const layers = new LayerSplit(ranks.layers, new Array<number>(count).fill(1));
  let x = context ? concat([context, image], 1) : image;
  for (let layer = 0; layer < count; layer++) {
    x = layers.run(layer, x, (x) =>
      graph.scope(`layers.${layer}`, () => {
        const block = weights.scope("layers").scope(layer);
        return ideogram4Block(config, block, x, condition, rotary);
      }));
  }
  const last = weights.scope("final_layer");
  const activated = elementwise("act_silu(c)", { c: condition });
  const scale = linearLayer(last, "adaln_modulation", activated, dim).reshape(1, 1, dim);
  const own = slice(x, 1, text.length, text.length + tokenCount(grid));
  const result = linearLayer(last, "linear", own, in_channels, {
    norm: { eps: END_EPS, scale, name: "norm_final" },
  });
  return layers.share(result);
}

/** Adds what says whether tokens are of a text, 0, or of an image, 1. */
function marked(
  config: Ideogram4TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  kind: 0 | 1,
): Tensor {
  const dim = hiddenSize(config);
  const table = weights.tensor(x.graph, "embed_image_indicator.weight", [2, dim]);
  const row = x.graph.constant(`indicator ${kind}`, [1], "u32", Uint32Array.of(kind));
  return elementwise("x + mark", { x, mark: gather(table, row).reshape(1, 1, dim) });
}

function ideogram4Block(
  config: Ideogram4TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  condition: Tensor,
  rotary: Rotation,
): Tensor {
  const dim = hiddenSize(config);
  const rows = BLOCK_MODULATION.length;
  const modulation = linearLayer(weights, "adaln_modulation", condition, rows * dim);
  return gatedBlock(weights, x, {
    eps: config.norm_eps,
    hidden: config.intermediate_size,
    attend: (h) => ideogram4Attention(config, weights.scope("attention"), h, rotary),
    modulation: takeVectors(modulation.reshape(rows, 1, dim))(BLOCK_MODULATION),
  });
}

/** The heads are wider than fused kernels of attention take. */
function ideogram4Attention(
  { num_attention_heads: heads, attention_head_dim: headDim }: Ideogram4TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { cos, sin }: Rotation,
): Tensor {
  const tokens = x.dim(1);
  const joined = linearLayers(weights, ["to_q", "to_k", "to_v"], x, heads * headDim);
  const [query, key, value] = [0, 1, 2].map((i) =>
    slice(joined, 0, i, i + 1).reshape(1, tokens, heads, headDim)
  ) as [Tensor, Tensor, Tensor];
  const placed = (name: string, projected: Tensor) => {
    const weight = weights.tensor(x.graph, `${name}.weight`, [headDim]);
    return rope(rmsNorm(projected, { weight, eps: HEAD_EPS, name }), cos, sin, { style: "half" });
  };
  const byHead = (x: Tensor) => rearrange(x, "1 t h d -> h t d");
  const attended = wideAttention(
    ...[placed("norm_q", query), placed("norm_k", key), value].map(byHead) as [
      Tensor,
      Tensor,
      Tensor,
    ],
  );
  const all = rearrange(attended, "h t d -> 1 t (h d)");
  return linearLayer(weights, "to_out.0", all, heads * headDim);
}

function imagePositions({ rows, columns }: TokenGrid): number[][] {
  return Array.from({ length: rows * columns }, (_, i) => [
    IMAGE_POSITION,
    IMAGE_POSITION + Math.floor(i / columns),
    IMAGE_POSITION + i % columns,
  ]);
}

/** The three axes take turns in the pairs of a head, as long as rows and columns have any left; in f32, as the reference. */
function rotaryAngles(
  graph: Graph,
  { attention_head_dim: headDim, rope_theta: theta, mrope_section }: Ideogram4TransformerConfig,
  places: readonly (readonly number[])[],
): Rotation {
  const pairs = Array.from({ length: headDim / 2 }, (_, i) => ({
    axis: i % AXES > 0 && i < AXES * mrope_section[i % AXES]! ? i % AXES : 0,
    frequency: fround(1 / fround(theta ** (2 * i / headDim))),
  }));
  const angles = places.flatMap((place) =>
    pairs.map(({ axis, frequency }) => fround(place[axis]! * frequency))
  );
  return angleConstants(graph, "rope", pairs.length, angles);
}
