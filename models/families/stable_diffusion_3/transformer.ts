/**
 * The diffusion transformer of Stable Diffusion 3 and 3.5, of blocks in which image and text attend each other.
 * Source: Esser et al. 2024, "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis"; diffusers
 * `SD3Transformer2DModel`.
 */
import {
  concat,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  geluFeedForward,
  headProjections,
  OUT_MODULATION,
  type Projections,
} from "../../blocks/double_stream.ts";
import { linearLayer, linearLayers, patchEmbeddingLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { PATCH_SIDE, type Sd3Sizes, type Sd3TransformerConfig } from "./config.ts";
import type { ControlResiduals } from "./control.ts";
import {
  type BlockModulation,
  blockModulation,
  type BlockTables,
  type ModulationTables,
  rowOf,
} from "./modulation.ts";

/** Epsilon of all norms; no configuration says it. */
const EPS = 1e-6;

const FEED_FORWARD = geluFeedForward(EPS);

interface Sd3Inputs extends ModulationTables {
  /** Prompt from `sd3Context()`: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, (row, column, channel)]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Row of the tables of all timesteps, u32 [1]. */
  readonly step: Tensor;
  /** Blocks that leave the streams as they are. */
  readonly skipped?: readonly number[] | undefined;
  readonly control?: ControlResiduals | undefined;
  readonly ranks?: Ranks;
}

export interface JointStreams {
  readonly image: Tensor;
  readonly text?: Tensor | undefined;
}

/** What the text encoders give, [prompts, text tokens, joint_attention_dim], as the blocks take it. */
export function sd3Context(
  config: Sd3Sizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/** Predicts the velocity of the flow, as patches of the sample's order. */
export function sd3Transformer(
  graph: Graph,
  config: Sd3TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, blocks, out, step, skipped = [], control, ranks = ALONE }: Sd3Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const tokens = sample.dim(1);
  const split = new TokenSplit(ranks.sequence, [context.dim(1), tokens]);
  const layers = new LayerSplit(ranks.layers, blocks.map(() => 1));
  const steps = control?.(split, blocks.length);
  let beside = steps?.begin;
  let streams: JointStreams = {
    text: split.own(context),
    image: sd3Embedded(graph, config, weights, { sample, grid, split }),
  };
  blocks.forEach((tables, layer) => {
    ({ streams, beside } = layers.run(layer, { streams, beside }, (own) => {
      const next = skipped.includes(layer) ? own.streams : sd3Block(graph, config, weights, {
        ...{ layer, streams: own.streams, tables, step, split, tokens },
      });
      // Nothing is added to the last block's.
      if (!steps || layer === blocks.length - 1) return { streams: next, beside: own.beside };
      const { x, control } = steps.after({ x: next.image, control: own.beside }, layer);
      return { streams: { ...next, image: x }, beside: control };
    }));
  });
  const result = split.gatherFirst(
    streams.image,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, PATCH_SIDE ** 2 * config.out_channels, {
        norm: { eps: EPS, ...rowOf(out, step, dim)(OUT_MODULATION), name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** Rows of the square table of positions: its middle, of the size of the image. */
function places(side: number, { rows, columns }: TokenGrid): number[] {
  const [top, left] = [rows, columns].map((count) => Math.floor((side - count) / 2)) as [
    number,
    number,
  ];
  return Array.from(
    { length: rows * columns },
    (_, i) => (top + Math.floor(i / columns)) * side + left + i % columns,
  );
}

/** Patches as own tokens, at their places. */
export function sd3Embedded(
  graph: Graph,
  config: Sd3Sizes,
  weights: WeightScope,
  { sample, grid, split }: {
    readonly sample: Tensor;
    readonly grid: TokenGrid;
    readonly split: TokenSplit;
  },
): Tensor {
  const [dim, side] = [hiddenSize(config), config.pos_embed_max_size!];
  const own = weights.scope("pos_embed");
  const table = own.tensor(graph, "pos_embed", [1, side ** 2, dim]).reshape(side ** 2, dim);
  const rows = Uint32Array.from(split.ownOf(places(side, grid)));
  return gather(table, graph.constant("places", [1, rows.length], "u32", rows), {
    addend: patchLayer(own, split.own(sample), dim),
  });
}

export function patchLayer(weights: WeightScope, patches: Tensor, dim: number): Tensor {
  const patch = [PATCH_SIDE, PATCH_SIDE];
  const channels = patches.dim(-1) / PATCH_SIDE ** 2;
  return patchEmbeddingLayer(weights, "proj", patches, dim, { channels, patch });
}

/** x + gate · branch of the modulated norm of x, for each stream; the last block of a transformer leaves the text. */
export function sd3Block(
  graph: Graph,
  config: Sd3Sizes,
  weights: WeightScope,
  { layer, streams, tables, step, split, tokens }: {
    readonly layer: number;
    readonly streams: JointStreams;
    readonly tables: BlockTables;
    readonly step: Tensor;
    readonly split: TokenSplit;
    /** Of the image, on all GPUs. */
    readonly tokens: number;
  },
): JointStreams {
  const block = weights.scope("transformer_blocks").scope(layer);
  const vectors = blockModulation(config, tables, step, layer);
  return graph.scope(
    `transformer_blocks.${layer}`,
    () => jointBlock(config, block, streams, vectors, { split, alone: split.like([tokens]) }),
  );
}

function jointBlock(
  config: Sd3Sizes,
  weights: WeightScope,
  { image, text }: JointStreams,
  { image: ofImage, self, text: ofText }: BlockModulation,
  { split, alone }: { readonly split: TokenSplit; readonly alone: TokenSplit },
): JointStreams {
  const attn = weights.scope("attn");
  const dim = image.dim(-1);
  const projected = (
    scope: WeightScope,
    x: Tensor,
    [layers, norms]: typeof TEXT_LAYERS | typeof IMAGE_LAYERS,
    { shift, scale }: { readonly shift: Tensor; readonly scale: Tensor },
  ): Projections => {
    const joined = linearLayers(scope, layers, x, dim, { norm: { eps: EPS, shift, scale } });
    const heads = { ...config, eps: EPS };
    return headProjections(heads, scope, config.qk_norm ? norms : undefined, joined);
  };
  const before = ofText && !("shift" in ofText)
    ? { shift: ofText.shift_msa, scale: ofText.scale_msa }
    : ofText;
  const all = [
    projected(attn, image, IMAGE_LAYERS, { shift: ofImage.shift_msa, scale: ofImage.scale_msa }),
    ...text && before ? [projected(attn, text, TEXT_LAYERS, before)] : [],
  ];
  const join = (i: 0 | 1 | 2) => concat(all.map((parts) => parts[i]), 1);
  const attended = attend([join(0), join(1), join(2)], split);
  const count = image.dim(1);
  let x = linearLayer(attn, "to_out.0", slice(attended, 1, 0, count), dim, {
    gate: ofImage.gate_msa,
    residual: image,
  });
  if (self) {
    const second = weights.scope("attn2");
    const own = attend(projected(second, image, IMAGE_LAYERS, self), alone);
    x = linearLayer(second, "to_out.0", own, dim, { gate: self.gate, residual: x });
  }
  const result = FEED_FORWARD(weights.scope("ff"), x, ofImage);
  if (!text || !ofText || "shift" in ofText) return { image: result, text };
  const y = linearLayer(attn, "to_add_out", slice(attended, 1, count, attended.dim(1)), dim, {
    gate: ofText.gate_msa,
    residual: text,
  });
  return { image: result, text: FEED_FORWARD(weights.scope("ff_context"), y, ofText) };
}

const IMAGE_LAYERS = [["to_q", "to_k", "to_v"], ["norm_q", "norm_k"]] as const;
const TEXT_LAYERS = [
  ["add_q_proj", "add_k_proj", "add_v_proj"],
  ["norm_added_q", "norm_added_k"],
] as const;
