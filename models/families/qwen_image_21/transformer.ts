/**
 * The Qwen-Image-2.1 diffusion transformer: one sequence, in which text and references see neither the image nor the timestep,
 * so that their keys and values are the same in all steps.
 * Source: Qwen team 2026, Qwen-Image-2.1; diffusers `QwenImage21Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  layerNorm,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  headProjections,
  type Projections,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { embeddingLayers, gluLayer, linearLayer, linearLayers } from "../../blocks/layers.ts";
import { rotaryConstants, timestepConstant } from "../../blocks/embeddings.ts";
import { hiddenSize } from "../../config.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { ALL_TOKENS, half, TokenSplit } from "../../sharing/token_split.ts";
import { AXES, type QwenImage21TransformerConfig } from "./config.ts";

/** Base of the rotary frequencies, whatever the configuration says. */
const THETA = 10000;
/** Width of the sinusoidal timestep embedding. */
const TIMESTEP_CHANNELS = 256;

const BLOCK_MODULATION = ["scale_msa", "gate_msa", "scale_mlp", "gate_mlp"] as const;
const OUT_MODULATION = ["scale"] as const;

/** Keys and values of a block, each [1, tokens, heads, headDim]. */
interface BlockState {
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Those of the blocks in order; on a GPU that has some of the layers, of these alone. */
export type QwenImage21Context = readonly BlockState[];

interface QwenImage21Inputs {
  /** The parts of the prompt. */
  readonly context: readonly QwenImage21Context[];
  /** The place after them. */
  readonly place: number;
  /** Latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** All timesteps from {@linkcode timestepTable}. */
  readonly times: Tensor;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** What the blocks and the last norm need of timesteps, 0 to 1000: [timesteps, 5 · dim]. */
export function timestepTable(
  graph: Graph,
  config: QwenImage21TransformerConfig,
  weights: WeightScope,
  timesteps: readonly number[],
): Tensor {
  const dim = hiddenSize(config);
  const embedded = timestepConstant(graph, timesteps, TIMESTEP_CHANNELS);
  const embedder = weights.scope("time_text_embed").scope("timestep_embedder");
  const activated = elementwise("act_silu(t)", { t: embeddingLayers(embedder, embedded, dim) });
  const shared = linearLayer(weights, "modulation.1", activated, BLOCK_MODULATION.length * dim);
  return concat([shared, linearLayer(weights, "norm_out.linear", activated, dim)], 1);
}

/** What stands together in a sequence: states of a text, [1, tokens, context_in_dim], or a reference's latents. */
export interface Segment {
  readonly tokens: Tensor;
  /** How the tokens of a reference lie, [1, tokens, in_channels]; nothing of a text. */
  readonly grid?: TokenGrid;
}

/** What the blocks need of a part of a prompt, whose first token is at `place`, after the parts `before`. */
export function qwenImage21Context(
  graph: Graph,
  config: QwenImage21TransformerConfig,
  weights: WeightScope,
  { segments, place = 0, before = [] }: {
    readonly segments: readonly Segment[];
    readonly place?: number;
    readonly before?: readonly QwenImage21Context[];
  },
  ranks: Ranks = ALONE,
): QwenImage21Context {
  const { num_layers: count } = config;
  const dim = hiddenSize(config);
  let next = place;
  const places = segments.flatMap(({ tokens, grid }) => {
    const own = grid
      ? imagePositions(grid, next)
      : Array.from({ length: tokens.dim(1) }, (_, i) => new Array<number>(AXES).fill(next + i));
    next = placeAfter(next, grid ?? tokens.dim(1));
    return own;
  });
  const rotary = rotaryConstants(graph, "text", places, config.axes_dims_rope, THETA);
  // Texts and references are seen as at the end of the way.
  const { block: vectors } = vectorsOf(timestepTable(graph, config, weights, [0]), dim);
  const { schedule, features, operands } = graph.target;
  // References have thousands of tokens, and on GPUs attention rounds their keys and values to f16.
  const isHalf = segments.some(({ grid }) => grid) && schedule === "gpu" && features.f16 &&
    operands !== "f32";
  const context: BlockState[] = [];
  const layers = new LayerSplit(ranks.layers, new Array<number>(count).fill(1));
  const left = before.map((part) => [...part]);
  let x = concat(
    segments.map(({ tokens, grid }) =>
      grid ? linearLayer(weights, "img_in", tokens, dim) : textTokens(config, weights, tokens)
    ),
    1,
  );
  for (let layer = 0; layer < count; layer++) {
    x = layers.run(layer, x, (x) =>
      graph.scope(`transformer_blocks.${layer}`, () => {
        const block = weights.scope("transformer_blocks").scope(layer);
        const [query, key, value] = projections(config, block, x, vectors, rotary);
        context.push(isHalf ? { key: half(key), value: half(value) } : { key, value });
        const seen = left.map((part) => part.shift()!);
        if (layer === count - 1) return x;
        let end = 0;
        const attended = segments.map(({ tokens, grid }) => {
          const start = end;
          end += tokens.dim(1);
          // A text sees what stands before each of its tokens, a reference all of itself, too.
          return ALL_TOKENS.attention(
            ...[slice(query, 1, start, end), slice(key, 1, 0, end)] as const,
            ...[slice(value, 1, 0, end), { causal: !grid }, seen] as const,
          );
        });
        return finishBlock(config, block, x, concat(attended, 1), vectors);
      }));
  }
  return context;
}

/** The place after a text of so many tokens, or after an image. */
export function placeAfter(place: number, part: number | TokenGrid): number {
  return place + (typeof part === "number" ? part : Math.max(part.rows, part.columns));
}

function textTokens(
  config: QwenImage21TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const input = weights.scope("txt_in");
  const weight = elementwise("1.0 + w", {
    w: input.tensor(states.graph, "text_norm.weight", [config.context_in_dim]),
  });
  const normed = rmsNorm(states, { weight, eps: config.eps, name: "text_norm" });
  const dim = hiddenSize(config);
  const hidden = linearLayer(input, "in_layer", normed, dim, { activation: "gelu_tanh" });
  return linearLayer(input, "out_layer", hidden, dim);
}

/** Predicts the velocity of the flow, [1, tokens, in_channels]. */
export function qwenImage21Transformer(
  graph: Graph,
  config: QwenImage21TransformerConfig,
  weights: WeightScope,
  { context, place, sample, grid, times, step, ranks = ALONE }: QwenImage21Inputs,
): Tensor {
  const { num_layers: count, eps, in_channels } = config;
  const dim = hiddenSize(config);
  const tokens = tokenCount(grid);
  const split = new TokenSplit(ranks.sequence, [tokens]);
  const places = imagePositions(grid, place);
  const rotary = rotaryConstants(
    ...[graph, "image", split.ownOf(places), config.axes_dims_rope, THETA] as const,
  );
  const vectors = vectorsOf(gather(times, step), dim);
  const layers = new LayerSplit(ranks.layers, new Array<number>(count).fill(1));
  let x = linearLayer(weights, "img_in", split.own(sample), dim);
  const left = context.map((part) => [...part]);
  for (let layer = 0; layer < count; layer++) {
    x = layers.run(layer, x, (x) =>
      graph.scope(`transformer_blocks.${layer}`, () => {
        const block = weights.scope("transformer_blocks").scope(layer);
        const [query, key, value] = projections(config, block, x, vectors.block, rotary);
        const seen = left.map((part) => part.shift()!);
        const attended = split.attention(query, key, value, {}, seen);
        return finishBlock(config, block, x, attended, vectors.block);
      }));
  }
  const result = split.gatherFirst(
    x,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, in_channels, {
        norm: { eps, ...vectors.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** The image comes at the place after the text; rows and columns count from the middle. */
function imagePositions({ rows, columns }: TokenGrid, place: number): number[][] {
  const [top, left] = [Math.floor(rows / 2) - rows, Math.floor(columns / 2) - columns];
  return Array.from(
    { length: rows * columns },
    (_, i) => [place, top + Math.floor(i / columns), left + i % columns],
  );
}

interface StepVectors {
  readonly block: Vectors<typeof BLOCK_MODULATION>;
  readonly out: Vectors<typeof OUT_MODULATION>;
}

/** Of a row of the table, [1, 5 · dim]. */
function vectorsOf(row: Tensor, dim: number): StepVectors {
  const take = takeVectors(row.reshape(BLOCK_MODULATION.length + 1, 1, dim));
  const block = take(BLOCK_MODULATION);
  const gate = (g: Tensor) => elementwise("act_tanh(g)", { g });
  return {
    block: { ...block, gate_msa: gate(block.gate_msa), gate_mlp: gate(block.gate_mlp) },
    out: take(OUT_MODULATION),
  };
}

function projections(
  config: QwenImage21TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { scale_msa: scale }: StepVectors["block"],
  rotary: Rotation,
): Projections {
  const attn = weights.scope("attn");
  const norm = { eps: config.eps, scale };
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], x, x.dim(-1), { norm });
  return headProjections(config, attn, ["norm_q", "norm_k"], joined, rotary);
}

function finishBlock(
  { eps, mlp_ratio }: QwenImage21TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  attended: Tensor,
  vectors: StepVectors["block"],
): Tensor {
  const dim = x.dim(-1);
  const y = linearLayer(weights.scope("attn"), "to_out.0", attended.reshape(...x.shape), dim, {
    gate: vectors.gate_msa,
    residual: x,
  });
  const mlp = weights.scope("img_mlp");
  const h = layerNorm(y, { eps, scale: vectors.scale_mlp });
  const hidden = gluLayer(mlp, ["gate_layer", "proj"], h, mlp_ratio * dim, "silu");
  return linearLayer(mlp, "out", hidden, dim, { gate: vectors.gate_mlp, residual: y });
}
