/**
 * The AuraFlow diffusion transformer: blocks in which text and image have weights of their own, then blocks of one sequence. Heads
 * are 256 wide, and nothing has a bias but the embedding of timesteps and of patches.
 * Source: fal 2024, AuraFlow; diffusers `AuraFlowTransformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  layerNorm,
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
import { timestepConstant } from "../../blocks/embeddings.ts";
import {
  embeddingLayers,
  gluLayer,
  linearLayer,
  linearLayers,
  wideAttention,
} from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import {
  type AuraFlowTransformerConfig,
  hiddenFeatures,
  PATCH_SIDE,
  REGISTERS,
  tableSide,
} from "./config.ts";

const TIMESTEP_CHANNELS = 256;
const TIMESTEP_SCALE = 1000;
/** Epsilon of all norms: torch's. */
const EPS = 1e-5;
/** Weights of a double block, in those of a single one. */
const DOUBLE_SIZE = 2;

/** The vectors of all timesteps, by block: [timesteps, vectors · dim]. */
interface AuraFlowTables {
  readonly double: readonly { readonly image: Tensor; readonly text: Tensor }[];
  readonly single: readonly Tensor[];
  readonly out: Tensor;
}

interface AuraFlowInputs extends AuraFlowTables {
  /** Prompt from {@linkcode auraFlowContext}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, (channel, row, column)]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** The row of the tables, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

interface Streams {
  readonly text: Tensor;
  readonly image: Tensor;
}

/** The prompt as the blocks take it, behind learned tokens, of states, [1, text tokens, joint_attention_dim]. */
export function auraFlowContext(
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const dim = hiddenSize(config);
  const registers = weights.tensor(states.graph, "register_tokens", [1, REGISTERS, dim]);
  return concat([registers, linearLayer(weights, "context_embedder", states, dim)], 1);
}

/** The vectors of timesteps, 1 for noise to 0. */
export function auraFlowTables(
  graph: Graph,
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  timesteps: ArrayLike<number>,
): AuraFlowTables {
  const dim = hiddenSize(config);
  const embedded = timestepConstant(graph, timesteps, TIMESTEP_CHANNELS, TIMESTEP_SCALE);
  const temb = embeddingLayers(weights.scope("time_step_proj"), embedded, dim);
  const activated = elementwise("act_silu(t)", { t: temb }, { name: "temb" });
  const table = (scope: WeightScope, name: string, { length }: readonly string[]) =>
    linearLayer(scope, `${name}.linear`, activated, length * dim);
  return {
    double: Array.from({ length: config.num_mmdit_layers }, (_, layer) => {
      const block = weights.scope("joint_transformer_blocks").scope(layer);
      return {
        image: table(block, "norm1", DOUBLE_MODULATION),
        text: table(block, "norm1_context", DOUBLE_MODULATION),
      };
    }),
    single: Array.from({ length: config.num_single_dit_layers }, (_, layer) => {
      const block = weights.scope("single_transformer_blocks").scope(layer);
      return table(block, "norm1", DOUBLE_MODULATION);
    }),
    out: table(weights, "norm_out", OUT_MODULATION),
  };
}

/** Predicts the velocity of the flow, in patches like those of the sample. */
export function auraFlowTransformer(
  graph: Graph,
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  { context, sample, grid, double, single, out, step, ranks = ALONE }: AuraFlowInputs,
): Tensor {
  const dim = hiddenSize(config);
  const row = (table: Tensor) => takeVectors(gather(table, step).reshape(-1, 1, dim));
  const layers = new LayerSplit(ranks.layers, [
    ...double.map(() => DOUBLE_SIZE),
    ...single.map(() => 1),
  ]);
  let streams: Streams = { text: context, image: embedded(graph, config, weights, sample, grid) };
  double.forEach((tables, layer) => {
    streams = layers.run(
      layer,
      streams,
      (given) =>
        graph.scope(`joint_transformer_blocks.${layer}`, () => {
          const block = weights.scope("joint_transformer_blocks").scope(layer);
          const modulation = {
            image: row(tables.image)(DOUBLE_MODULATION),
            text: row(tables.text)(DOUBLE_MODULATION),
          };
          return doubleBlock(config, block, given, modulation);
        }),
    );
  });
  let x = concat([streams.text, streams.image], 1);
  single.forEach((table, layer) => {
    x = layers.run(
      double.length + layer,
      x,
      (given) =>
        graph.scope(`single_transformer_blocks.${layer}`, () => {
          const block = weights.scope("single_transformer_blocks").scope(layer);
          return singleBlock(config, block, given, row(table)(DOUBLE_MODULATION));
        }),
    );
  });
  const own = slice(x, 1, context.dim(1), context.dim(1) + tokenCount(grid));
  const { scale, shift } = row(out)(OUT_MODULATION);
  const last = elementwise("x * (1.0 + scale) + shift", { x: own, scale, shift }, {
    name: "norm_out",
  });
  const result = linearLayer(weights, "proj_out", last, PATCH_SIDE ** 2 * config.in_channels);
  return layers.share(result);
}

/** Patches as tokens, with positions from the middle of a square table. */
function embedded(
  graph: Graph,
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  sample: Tensor,
  { rows, columns }: TokenGrid,
): Tensor {
  const [dim, side] = [hiddenSize(config), tableSide(config)];
  const own = weights.scope("pos_embed");
  const table = own.tensor(graph, "pos_embed", [1, side ** 2, dim]).reshape(side ** 2, dim);
  const [top, left] = [rows, columns]
    .map((count) => Math.floor(side / 2) - Math.floor(count / 2)) as [number, number];
  const places = Uint32Array.from(
    { length: rows * columns },
    (_, i) => (top + Math.floor(i / columns)) * side + left + i % columns,
  );
  return gather(table, graph.constant("places", [1, places.length], "u32", places), {
    addend: linearLayer(own, "proj", sample, dim),
  });
}

function doubleBlock(
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  { text, image }: Streams,
  modulation: { readonly text: StreamModulation; readonly image: StreamModulation },
): Streams {
  const attn = weights.scope("attn");
  const own = projections(
    config,
    attn,
    ["add_q_proj", "add_k_proj", "add_v_proj"],
    text,
    modulation.text,
  );
  const others = projections(config, attn, ["to_q", "to_k", "to_v"], image, modulation.image);
  const attended = attend(own.map((part, i) => concat([part, others[i]!], 1)));
  const seen = text.dim(1);
  const part = (first: number, end: number) => slice(attended, 1, first, end);
  return {
    text: fedForward(config, weights, text, part(0, seen), modulation.text, {
      output: "attn.to_add_out",
      feedForward: "ff_context",
    }),
    image: fedForward(config, weights, image, part(seen, attended.dim(1)), modulation.image),
  };
}

function singleBlock(
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  modulation: StreamModulation,
): Tensor {
  const parts = projections(config, weights.scope("attn"), ["to_q", "to_k", "to_v"], x, modulation);
  return fedForward(config, weights, x, attend(parts), modulation);
}

/** Heads of queries, keys and values, [1, tokens, heads, headDim]; the first two are normalised. */
function projections(
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  names: readonly string[],
  x: Tensor,
  { scale_msa: scale, shift_msa: shift }: StreamModulation,
): Tensor[] {
  const { num_attention_heads: heads, attention_head_dim: headDim } = config;
  const joined = linearLayers(weights, names, x, x.dim(-1), { norm: { eps: EPS, scale, shift } });
  return names.map((name, i) => {
    const own = slice(joined, 0, i, i + 1).reshape(1, x.dim(1), heads, headDim);
    return i < 2 ? layerNorm(own, { eps: EPS, name: `norm ${name}` }) : own;
  });
}

/** Heads are wider than the fused kernels take. */
function attend(parts: readonly Tensor[]): Tensor {
  const [q, k, v] = parts.map((part) => rearrange(part, "1 n h d -> h n d"));
  return rearrange(wideAttention(q!, k!, v!), "h n d -> 1 n (h d)");
}

const IMAGE_LAYERS = { output: "attn.to_out.0", feedForward: "ff" };

/** x + gate · feed-forward of the modulated norm of x + gate · attention. */
function fedForward(
  config: AuraFlowTransformerConfig,
  weights: WeightScope,
  x: Tensor,
  attended: Tensor,
  modulation: StreamModulation,
  { output, feedForward } = IMAGE_LAYERS,
): Tensor {
  const dim = x.dim(-1);
  const y = linearLayer(weights, output, attended, dim, { gate: modulation.gate_msa, residual: x });
  const ff = weights.scope(feedForward);
  const hidden = gluLayer(ff, ["linear_1", "linear_2"], y, hiddenFeatures(config), "silu", {
    norm: { eps: EPS, scale: modulation.scale_mlp, shift: modulation.shift_mlp },
  });
  return linearLayer(ff, "out_projection", hidden, dim, { gate: modulation.gate_mlp, residual: x });
}
