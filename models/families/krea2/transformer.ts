/**
 * The Krea 2 diffusion transformer: one sequence of text and image, with gated attention and one modulation for all blocks.
 * Source: Krea 2026, "Krea 2 Technical Report"; diffusers `Krea2Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  rmsNorm,
  type RmsNormOptions,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { OUT_MODULATION, takeVectors } from "../../blocks/double_stream.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import { gluLayer, linearLayer, linearLayers } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { ALL_TOKENS, TokenSplit } from "../../sharing/token_split.ts";
import type { Krea2TransformerConfig } from "./config.ts";

/** Vectors of a block, in the order of the rows of its table. */
const BLOCK_MODULATION = [
  ...["scale_msa", "shift_msa", "gate_msa", "scale_mlp", "shift_mlp", "gate_mlp"] as const,
];

interface Krea2Inputs {
  /** Prompt from {@linkcode krea2Context}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Latents of reference images as patches, one after the other, [1, their tokens, in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  /** How these lie, where there are any. */
  readonly referenceGrids?: readonly PlacedGrid[];
  /** Whether they are seen as at timestep 0, which is the last row of `times` then. */
  readonly areReferencesClean?: boolean;
  /** All timesteps from {@linkcode timestepTable}. */
  readonly times: Tensor;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** A grid whose first token lies at a place of the sample's. */
export interface PlacedGrid extends TokenGrid {
  readonly top: number;
  readonly left: number;
}

/** What the blocks of an image have beside their input: vectors for each stream of tokens, and positions for all. */
interface InImage {
  readonly shared: readonly Tensor[];
  readonly rotary: Rotation;
  readonly split: TokenSplit;
}

type Residual = NonNullable<Parameters<typeof linearLayer>[4]>;

interface BlockSizes {
  readonly heads: number;
  readonly keyHeads: number;
  readonly hidden: number;
  readonly eps: number;
}

/** The prompt as the blocks take it, of the states of all text layers, [1, text tokens, layers · text_hidden_dim]. */
export function krea2Context(
  graph: Graph,
  config: Krea2TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const { num_text_layers: layers, text_hidden_dim: dim, norm_eps: eps } = config;
  const tokens = states.dim(1);
  const sizes = {
    heads: config.text_num_attention_heads,
    keyHeads: config.text_num_key_value_heads,
    hidden: config.text_intermediate_size,
    eps,
  };
  const fusion = weights.scope("text_fusion");
  const blocks = (stack: string, count: number, x: Tensor) => {
    for (let i = 0; i < count; i++) {
      [x] = graph.scope(
        `${stack}.${i}`,
        () => krea2Block(fusion.scope(stack).scope(i), [x], sizes),
      ) as [Tensor];
    }
    return x;
  };
  const byToken = states.reshape(tokens, layers, dim);
  const mixed = blocks("layerwise_blocks", config.num_layerwise_text_blocks, byToken);
  const fused = linearLayer(fusion, "projector", rearrange(mixed, "t l d -> t d l"), 1);
  const refined = blocks(
    "refiner_blocks",
    config.num_refiner_text_blocks,
    fused.reshape(1, tokens, dim),
  );
  const input = weights.scope("txt_in");
  return twoLayers(input, norm(input, "norm", refined, eps), hiddenSize(config));
}

/** What the blocks and the last norm need of timesteps, [timesteps, 7 · dim], of [timesteps, timestep_embed_dim]. */
export function timestepTable(
  config: Krea2TransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): Tensor {
  const dim = hiddenSize(config);
  const temb = twoLayers(weights.scope("time_embed"), embedding, dim);
  const activated = elementwise("act_gelu_tanh(t)", { t: temb });
  const rows = BLOCK_MODULATION.length * dim;
  return concat([linearLayer(weights, "time_mod_proj", activated, rows), temb], 1);
}

/** Predicts the velocity of the flow, in patches like those of the sample, [1, tokens, in_channels]. */
export function krea2Transformer(
  graph: Graph,
  config: Krea2TransformerConfig,
  weights: WeightScope,
  inputs: Krea2Inputs,
): Tensor {
  const { context, sample, grid, references, referenceGrids = [], times, step } = inputs;
  const { areReferencesClean = false, ranks = ALONE } = inputs;
  const { num_layers, norm_eps: eps } = config;
  const dim = hiddenSize(config);
  const [textTokens, tokens] = [context.dim(1), tokenCount(grid)];
  const given = references ? [sample, references] : [sample];
  const split = new TokenSplit(ranks.sequence, [textTokens, ...given.map((x) => x.dim(1))]);
  const text = Array.from({ length: textTokens }, () => [0, 0, 0]);
  const places = [
    text,
    imagePlaces({ ...grid, top: 0, left: 0 }, 0),
    ...references ? [referenceGrids.flatMap((grid, i) => imagePlaces(grid, i + 1))] : [],
  ].flatMap((tokens) => split.ownOf(tokens));
  const rotary = rotaryConstants(graph, "rope", places, config.axes_dims_rope, config.rope_theta);
  const vectorsAt = (row: Tensor) => row.reshape(BLOCK_MODULATION.length + 1, 1, dim);
  const time = vectorsAt(gather(times, step));
  const clean = vectorsAt(slice(times, 0, times.dim(0) - 1));
  const hasOwnTime = references !== undefined && areReferencesClean;
  const shared = (hasOwnTime ? [time, clean] : [time])
    .map((vectors) => slice(vectors, 0, 0, BLOCK_MODULATION.length));
  const sizes = {
    heads: config.num_attention_heads,
    keyHeads: config.num_key_value_heads,
    hidden: config.intermediate_size,
    eps,
  };
  const layers = new LayerSplit(ranks.layers, new Array<number>(num_layers).fill(1));
  const [image, ...others] = given.map((x) => linearLayer(weights, "img_in", split.own(x), dim));
  const main = [split.own(context), image!];
  let streams = hasOwnTime ? [concat(main, 1), ...others] : [concat([...main, ...others], 1)];
  for (let layer = 0; layer < num_layers; layer++) {
    streams = layers.run(
      layer,
      streams,
      (streams) =>
        graph.scope(`transformer_blocks.${layer}`, () => {
          const block = weights.scope("transformer_blocks").scope(layer);
          return krea2Block(block, streams, sizes, { shared, rotary, split });
        }),
    );
  }
  const last = weights.scope("final_layer");
  const result = split.gatherFirst(
    streams[0]!,
    { offset: split.ownCount(textTokens), count: tokens, tokens },
    (x) => {
      const temb = slice(time, 0, BLOCK_MODULATION.length);
      const modulation = vectorsOf(last, temb, OUT_MODULATION);
      const normed = norm(last, "norm", x, eps, modulation);
      return linearLayer(last, "linear", normed, config.in_channels);
    },
  );
  return layers.share(result);
}

/** The result, image 0, and images that it is made after: each by itself along the first axis. */
function imagePlaces({ rows, columns, top, left }: PlacedGrid, image: number): number[][] {
  return Array.from(
    { length: rows * columns },
    (_, i) => [image, top + Math.floor(i / columns), left + i % columns],
  );
}

/** x + gate · attention(norm(x)), then the same with the feed-forward; blocks of text have no gates and no positions. */
function krea2Block(
  weights: WeightScope,
  streams: readonly Tensor[],
  sizes: BlockSizes,
  inImage?: InImage,
): Tensor[] {
  const { hidden, eps } = sizes;
  const dim = streams[0]!.dim(-1);
  const vectors = streams.map((_, i) =>
    inImage && vectorsOf(weights, inImage.shared[i]!, BLOCK_MODULATION)
  );
  const normed = (name: string, streams: readonly Tensor[], part: "msa" | "mlp") =>
    concat(
      streams.map((x, i) =>
        norm(weights, name, x, eps, {
          scale: vectors[i]?.[`scale_${part}`],
          shift: vectors[i]?.[`shift_${part}`],
        })
      ),
      1,
    );
  const added = (
    layer: (x: Tensor, options: Residual) => Tensor,
    all: Tensor,
    streams: readonly Tensor[],
    part: "msa" | "mlp",
  ) => {
    let first = 0;
    return streams.map((residual, i) => {
      const gate = vectors[i]?.[`gate_${part}`];
      const own = slice(all, 1, first, first += residual.dim(1));
      return layer(own, { residual, ...(gate && { gate }) });
    });
  };
  const attn = weights.scope("attn");
  const attended = krea2Attention(attn, normed("norm1", streams, "msa"), sizes, inImage);
  const y = added(
    (x, options) => linearLayer(attn, "to_out.0", x, dim, options),
    attended,
    streams,
    "msa",
  );
  const ff = weights.scope("ff");
  const activated = gluLayer(ff, ["gate", "up"], normed("norm2", y, "mlp"), hidden, "silu");
  return added(
    (x, options) => linearLayer(ff, "down", x, dim, options),
    activated,
    y,
    "mlp",
  );
}

/** Several queries attend with a key; what comes out is gated by the input. */
function krea2Attention(
  weights: WeightScope,
  x: Tensor,
  { heads, keyHeads, eps }: BlockSizes,
  { rotary, split = ALL_TOKENS }: { readonly rotary?: Rotation; readonly split?: TokenSplit } = {},
): Tensor {
  const [batch, tokens, dim] = x.shape as [number, number, number];
  const headDim = dim / heads;
  const placed = (name: string, projected: Tensor) =>
    norm(weights, name, projected.reshape(batch, tokens, -1, headDim), eps, {
      ...(rotary && { rotary: { ...rotary, hasHeadAxis: true } }),
    });
  const query = placed("norm_q", linearLayer(weights, "to_q", x, dim));
  const keyValue = linearLayers(weights, ["to_k", "to_v"], x, keyHeads * headDim);
  const key = placed("norm_k", slice(keyValue, 0, 0, 1));
  const value = slice(keyValue, 0, 1, 2).reshape(batch, tokens, keyHeads, headDim);
  const attended = split.attention(query, key, value).reshape(batch, tokens, dim);
  const gate = linearLayer(weights, "to_gate", x, dim);
  return elementwise("x / (1.0 + exp(-g))", { x: attended, g: gate }, { name: "gated" });
}

/** RMS norm whose stored weight lies around 0. */
function norm(
  weights: WeightScope,
  name: string,
  x: Tensor,
  eps: number,
  options: Pick<RmsNormOptions, "scale" | "shift" | "rotary"> = {},
): Tensor {
  const weight = weights.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
  const factors = options.scale
    ? { weight: elementwise("1.0 + w", { w: weight }) }
    : { scale: weight };
  return rmsNorm(x, { eps, name, ...options, ...factors });
}

function vectorsOf<const Names extends readonly string[]>(
  weights: WeightScope,
  time: Tensor,
  names: Names,
) {
  const [count, dim] = [names.length, time.dim(-1)];
  const table = weights.tensor(time.graph, "scale_shift_table", [count, dim]).reshape(
    count,
    1,
    dim,
  );
  return takeVectors(elementwise("t + table", { t: time, table }, { name: "modulation" }))(names);
}

function twoLayers(weights: WeightScope, x: Tensor, features: number): Tensor {
  const hidden = linearLayer(weights, "linear_1", x, features, { activation: "gelu_tanh" });
  return linearLayer(weights, "linear_2", hidden, features);
}
