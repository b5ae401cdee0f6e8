/** UMT5's encoder: T5 v1.1 with a position bias in every layer. Source: Chung et al. 2023, "UniMax"; `UMT5EncoderModel`. */
import { z } from "zod";
import {
  attention,
  elementwise,
  f32,
  gather,
  type Graph,
  permute,
  rmsNorm,
  type Tensor,
  u32,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { gluLayer, linearLayer } from "../blocks/layers.ts";
import { checkDepth, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

/** What `config.json` of T5's and of UMT5's encoder may say, but for the kind and the vocabulary. */
export const T5_FIELDS = {
  d_model: z.int().positive().default(512),
  d_kv: z.int().positive().multipleOf(4).max(128).default(64),
  d_ff: z.int().positive().default(1024),
  num_layers: z.int().positive().default(8),
  num_heads: z.int().positive().default(6),
  relative_attention_num_buckets: z.int().positive().multipleOf(4).default(32),
  relative_attention_max_distance: z.int().positive().default(128),
  layer_norm_epsilon: z.number().positive().max(1).default(1e-6),
  feed_forward_proj: z.literal("gated-gelu").default("gated-gelu"),
};

export const FAR_ENOUGH = {
  path: ["relative_attention_max_distance"],
  message: "it must exceed a quarter of relative_attention_num_buckets",
};

export function isFarEnough(
  { relative_attention_max_distance: far, relative_attention_num_buckets: buckets }: {
    readonly relative_attention_max_distance: number;
    readonly relative_attention_num_buckets: number;
  },
): boolean {
  return far > buckets / 4;
}

/** What `config.json` of the encoder may say; defaults are those of transformers' `UMT5Config`. */
export const UMT5_CONFIG = z.object({
  ...T5_FIELDS,
  model_type: z.literal("umt5").default("umt5"),
  vocab_size: z.int().positive().default(250112),
}).refine(isFarEnough, FAR_ENOUGH);

type Umt5Config = Omit<z.output<typeof UMT5_CONFIG>, "model_type"> & {
  readonly model_type: "t5" | "umt5";
};

interface Umt5Inputs {
  /** f32 [batch, tokens, d_model] of {@linkcode umt5Embeddings}, padded to the longest. */
  readonly embeddings: Tensor;
  /** u32 [batch]: real tokens per row; keys beyond are not attended. All are by default. */
  readonly lengths?: Tensor;
}

/** Rows of the embedding table, [ids, d_model], read from the file: it is too large for the device. */
export function umt5Embeddings(
  { vocab_size, d_model }: Umt5Config,
  weights: Weights,
  ids: readonly number[],
): Float32Array<ArrayBuffer> {
  const name = weights.has("shared.weight") ? "shared.weight" : "encoder.embed_tokens.weight";
  return weights.readRows(name, [vocab_size, d_model], ids);
}

/** The last hidden state, [batch, tokens, d_model]; rows of pad tokens hold values of no use. */
export function umt5Encoder(
  graph: Graph,
  config: Umt5Config,
  weights: WeightScope,
  { embeddings, lengths }: Umt5Inputs,
): Tensor {
  const { d_model: dim, d_kv: headDim, num_heads: heads, layer_norm_epsilon: eps } = config;
  const [batch, tokens] = [embeddings.dim(0), embeddings.dim(1)];
  const norm = (x: Tensor, scope: WeightScope) =>
    rmsNorm(x, { weight: scope.tensor(graph, "weight", [dim]), eps });
  const buckets = graph.constant(
    "position_buckets",
    [tokens, tokens],
    "u32",
    positionBuckets(tokens, config),
  );
  const encoder = weights.scope("encoder");
  checkDepth(encoder.scope("block"), config.num_layers, "layer.0.layer_norm.weight");
  const attentionOf = (layer: number) =>
    encoder.scope("block").scope(layer).scope("layer").scope(0).scope("SelfAttention");
  const biasOf = (layer: number) => {
    const table = attentionOf(layer).tensor(graph, "relative_attention_bias.weight", [
      config.relative_attention_num_buckets,
      heads,
    ]);
    return permute(gather(table, buckets), [2, 0, 1]).reshape(1, heads, tokens, tokens);
  };
  const shared = config.model_type === "t5" ? biasOf(0) : undefined;
  let x = embeddings;
  for (let layer = 0; layer < config.num_layers; layer++) {
    x = graph.scope(`block.${layer}`, () => {
      const block = encoder.scope("block").scope(layer).scope("layer");
      const self = attentionOf(layer);
      const h = norm(x, block.scope(0).scope("layer_norm"));
      const project = (name: string) =>
        linearLayer(self, name, h, heads * headDim).reshape(batch, tokens, heads, headDim);
      const attended = attention(project("q"), project("k"), project("v"), {
        scale: 1,
        bias: shared ?? biasOf(layer),
        ...(lengths && { keyLengths: lengths }),
      });
      const y = linearLayer(self, "o", attended.reshape(batch, tokens, heads * headDim), dim, {
        residual: x,
      });
      const dense = block.scope(1).scope("DenseReluDense");
      const normed = norm(y, block.scope(1).scope("layer_norm"));
      const hidden = gluLayer(dense, ["wi_0", "wi_1"], normed, config.d_ff, "gelu_tanh");
      return linearLayer(dense, "wo", hidden, dim, { residual: y });
    });
  }
  return norm(x, encoder.scope("final_layer_norm"));
}

function positionBuckets(tokens: number, config: Umt5Config): Uint32Array {
  const result = new Uint32Array(tokens * tokens);
  for (let query = 0; query < tokens; query++) {
    for (let key = 0; key < tokens; key++) {
      result[query * tokens + key] = relativePositionBucket(
        key - query,
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
      );
    }
  }
  return result;
}

/**
 * Near distances have a bucket each, far ones share logarithmically growing ones; both directions apart.
 * Source: Raffel et al. 2020 (T5), transformers `_relative_position_bucket` with `bidirectional=True`.
 */
export function relativePositionBucket(
  relative: number,
  numBuckets: number,
  maxDistance: number,
): number {
  const half = numBuckets / 2;
  const exact = half / 2;
  const distance = Math.abs(relative);
  const side = relative > 0 ? half : 0;
  if (distance < exact) return side + distance;
  // log2 keeps powers of two exact; the epsilon does the same for other bases.
  const octaves = Math.log2(distance / exact) / Math.log2(maxDistance / exact);
  return side + Math.min(exact + Math.trunc(octaves * (half - exact) + 1e-9), half - 1);
}

/** UMT5 for pipelines: states are zero behind a prompt's tokens. */
export function umt5TextEncoder({ config, weights }: TextEncoderParts<Umt5Config>): TextEncoder {
  const { d_model: dim } = config;
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, dim),
      lengths: u32(prompts),
      mask: f32(prompts, rows, 1),
    }),
    trace: ({ embeddings, lengths, mask }, graph) => {
      const inputs = { embeddings: embeddings!, lengths: lengths! };
      const states = umt5Encoder(graph, config, weights.root, inputs);
      return elementwise("h * mask", { h: states, mask: mask! }, { name: "text" });
    },
    values: (tokens, rows) => {
      const embeddings = new Float32Array(tokens.length * rows * dim);
      const mask = new Float32Array(tokens.length * rows);
      tokens.forEach((prompt, i) => {
        embeddings.set(umt5Embeddings(config, weights, prompt), i * rows * dim);
        mask.fill(1, i * rows, i * rows + prompt.length);
      });
      return { embeddings, lengths: tokens.map(({ length }) => length), mask };
    },
  };
}
