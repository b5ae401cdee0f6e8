/** What is given beside the video: a prompt, what stands in quotes in it, an image. The prompt is refined in each step. */
import {
  attention,
  elementwise,
  type Graph,
  layerNorm,
  matmul,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { affine } from "../../blocks/clip_layer.ts";
import { MLP_RATIO } from "../../blocks/double_stream.ts";
import { embeddingLayers, linearLayer, linearLayers } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { EPS, type HunyuanVideo15TransformerConfig } from "./config.ts";

/** Epsilon of the norms of glyphs and images: PyTorch's. */
const INPUT_EPS = 1e-5;

/** Width of the layers of glyphs; no configuration says it. */
const GLYPH_WIDTH = 2048;

/** What tokens are of, in the order of the table's rows. */
const KINDS = ["text", "glyphs", "image"] as const;

/** A prompt before it is refined. */
export interface PromptStates {
  /** [1, tokens, dim] */
  readonly text: Tensor;
  /** The mean of the tokens, [1, dim]. */
  readonly summary: Tensor;
}

/** Of the text encoder's states, [1, tokens, text_embed_dim]. */
export function promptStates(
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): PromptStates {
  const dim = hiddenSize(config);
  const tokens = states.dim(1);
  const embedder = weights.scope("context_embedder");
  const shares = new Float32Array(tokens).fill(1 / tokens);
  const mean = matmul(states.graph.constant("shares", [1, 1, tokens], "f32", shares), states);
  const summary = embedder.scope("time_text_embed").scope("text_embedder");
  return {
    text: linearLayer(embedder, "proj_in", states, dim),
    summary: embeddingLayers(summary, mean.reshape(1, -1), dim),
  };
}

/** Tokens of what stands in quotes, of the glyph encoder's states, [1, tokens, text_embed_2_dim]. */
export function glyphTokens(
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const embedder = weights.scope("context_embedder_2");
  const norm = { eps: INPUT_EPS, ...affine(states.graph, embedder, "norm", states.dim(-1)) };
  const first = linearLayer(embedder, "linear_1", states, GLYPH_WIDTH, {
    norm,
    activation: "gelu",
  });
  const second = linearLayer(embedder, "linear_2", first, GLYPH_WIDTH, { activation: "gelu" });
  return ofKind(weights, "glyphs", linearLayer(embedder, "linear_3", second, hiddenSize(config)));
}

/** Tokens of an image, of the image encoder's states, [1, tokens, image_embed_dim]. */
export function imageTokens(
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const { graph } = states;
  const [dim, width] = [hiddenSize(config), states.dim(-1)];
  const embedder = weights.scope("image_embedder");
  const hidden = linearLayer(embedder, "linear_1", states, width, {
    norm: { eps: INPUT_EPS, ...affine(graph, embedder, "norm_in", width) },
    activation: "gelu",
  });
  const y = linearLayer(embedder, "linear_2", hidden, dim);
  const norm = { eps: INPUT_EPS, ...affine(graph, embedder, "norm_out", dim) };
  return ofKind(weights, "image", layerNorm(y, norm));
}

/** The prompt as the blocks take it; `time` is the refiner's row of `modulationTables()`, [1, dim]. */
export function refinedText(
  graph: Graph,
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  { text, summary }: PromptStates,
  time: Tensor,
): Tensor {
  const temb = elementwise("act_silu(t + s)", { t: time, s: summary }, { name: "refiner temb" });
  const blocks = weights.scope("context_embedder").scope("token_refiner").scope("refiner_blocks");
  let x = text;
  for (let layer = 0; layer < config.num_refiner_layers; layer++) {
    x = graph.scope(
      `refiner_blocks.${layer}`,
      () => refinerBlock(config, blocks.scope(layer), x, temb),
    );
  }
  return ofKind(weights, "text", x);
}

function refinerBlock(
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  temb: Tensor,
): Tensor {
  const { graph } = x;
  const [, tokens, dim] = x.shape as [number, number, number];
  const gates = linearLayer(weights, "norm_out.linear", temb, 2 * dim).reshape(2, 1, dim);
  const [gate, gateMlp] = [slice(gates, 0, 0, 1), slice(gates, 0, 1, 2)];
  const norm = (name: string) => ({ eps: EPS, ...affine(graph, weights, name, dim) });
  const attn = weights.scope("attn");
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], x, dim, { norm: norm("norm1") });
  const part = (i: number) =>
    slice(joined, 0, i, i + 1).reshape(1, tokens, config.num_attention_heads, -1);
  const attended = attention(part(0), part(1), part(2), { name: "attn" }).reshape(...x.shape);
  const y = linearLayer(attn, "to_out.0", attended, dim, { gate, residual: x });
  const hidden = linearLayer(weights, "ff.net.0.proj", y, MLP_RATIO * dim, {
    norm: norm("norm2"),
    activation: "silu",
  });
  return linearLayer(weights, "ff.net.2", hidden, dim, { gate: gateMlp, residual: y });
}

function ofKind(weights: WeightScope, kind: typeof KINDS[number], x: Tensor): Tensor {
  const row = KINDS.indexOf(kind);
  const table = weights.tensor(x.graph, "cond_type_embed.weight", [KINDS.length, x.dim(-1)]);
  const own = slice(table, 0, row, row + 1).reshape(1, 1, -1);
  return elementwise("x + k", { x, k: own }, { name: `${kind} tokens` });
}
