/**
 * ChatGLM3's language model as text encoder. Prompts are filled up before their first token, at position 0, and what fills
 * them up attends to everything, so that it lies behind them here: nothing depends on the order.
 * Source: Du et al. 2022, "GLM: General Language Model Pretraining"; diffusers `ChatGLMModel`, whose module names are the
 * weight names.
 */
import { z } from "zod";
import type { JsonObject } from "../../hub/json_file.ts";
import {
  attention,
  concat,
  elementwise,
  f32,
  gather,
  type GgufValue,
  type Graph,
  rmsNorm,
  rope,
  type Rotation,
  slice,
  type Tensor,
  type TensorSource,
  u32,
  type WeightScope,
} from "../../runtime/mod.ts";
import { rotaryTables } from "../blocks/embeddings.ts";
import { linearLayer, packedGluLayer } from "../blocks/layers.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";
import { headFits, refuse } from "../config.ts";
import { type Layout, renamed } from "../layouts.ts";
import { checkDepth, padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

/** Base of the rotary frequencies. */
const THETA = 1e4;
const off = z.literal(false, "only the form of ChatGLM3 is supported").default(false);
const on = z.literal(true, "only the form of ChatGLM3 is supported").default(true);
const size = (value: number) => z.int().positive().default(value);

/** `config.json` of the encoder. */
export const CHATGLM3_CONFIG = z.object({
  model_type: z.literal("chatglm").default("chatglm"),
  num_layers: z.int().positive().max(1024).default(28),
  padded_vocab_size: size(65024),
  hidden_size: size(4096),
  ffn_hidden_size: size(13696),
  /** Elements of a head; half of them turn with its position. */
  kv_channels: z.int().positive().multipleOf(4).default(128),
  num_attention_heads: size(32),
  multi_query_attention: on,
  multi_query_group_num: size(2),
  layernorm_epsilon: z.number().positive().max(1).default(1e-5),
  add_qkv_bias: z.boolean().default(true),
  add_bias_linear: off,
  rmsnorm: on,
  apply_residual_connection_post_layernorm: off,
  rope_ratio: z.literal(1, "scaled positions are not supported").default(1),
}).superRefine(({ kv_channels, num_attention_heads: heads, multi_query_group_num }, context) => {
  if (!headFits(kv_channels)) refuse(context, "kv_channels", "heads must be up to 128 wide");
  if (heads % multi_query_group_num === 0) return;
  refuse(context, "multi_query_group_num", `it must divide num_attention_heads = ${heads}`);
}).transform((config) => ({ ...config, vocab_size: config.padded_vocab_size }));

type ChatGlm3Config = z.output<typeof CHATGLM3_CONFIG>;

const TABLE = "embedding.word_embeddings.weight";
const QKV = "encoder.layers.0.self_attention.query_key_value";

const LAYER = "encoder.layers.*";
export const LLAMA_CPP_CHATGLM: Layout = {
  name: "llama.cpp",
  prefixes: [""],
  entries: [
    renamed("token_embd", "embedding.word_embeddings"),
    renamed("output_norm", "encoder.final_layernorm"),
    renamed("output", "output_layer"),
    renamed("blk.*.attn_norm", `${LAYER}.input_layernorm`),
    renamed("blk.*.attn_qkv", `${LAYER}.self_attention.query_key_value`),
    renamed("blk.*.attn_output", `${LAYER}.self_attention.dense`),
    renamed("blk.*.ffn_norm", `${LAYER}.post_attention_layernorm`),
    renamed("blk.*.ffn_up", `${LAYER}.mlp.dense_h_to_4h`),
    renamed("blk.*.ffn_down", `${LAYER}.mlp.dense_4h_to_h`),
  ],
};

export const CHATGLM3_FORMAT: ComponentFormat = {
  name: "a ChatGLM3 text encoder",
  component: "text_encoder",
  className: "ChatGLMModel",
  architecture: "chatglm",
  namings: [
    { probes: [`transformer.${TABLE}`, `transformer.${QKV}.weight`] },
    { probes: [TABLE, `${QKV}.weight`] },
    { probes: ["token_embd.weight", "blk.0.attn_qkv.weight"], layout: LLAMA_CPP_CHATGLM },
  ],
  config,
};

/** Heads are as wide as in the published model, whose other sizes the shapes tell. */
function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const base = tensors.find(TABLE) ? "" : "transformer.";
  const { kv_channels: head } = CHATGLM3_CONFIG.parse({});
  const layer = `${base}encoder.layers.0`;
  const [vocabulary, hidden] = shapeOf(tensors, base + TABLE, 2);
  const [rows] = shapeOf(tensors, `${base}${QKV}.weight`, 2);
  const [, attended] = shapeOf(tensors, `${layer}.self_attention.dense.weight`, 2);
  const [, widened] = shapeOf(tensors, `${layer}.mlp.dense_4h_to_h.weight`, 2);
  const eps = metadata?.get("chatglm.attention.layer_norm_rms_epsilon");
  return {
    model_type: "chatglm",
    num_layers: countModules(tensors, `${base}encoder.layers.`),
    padded_vocab_size: vocabulary!,
    hidden_size: hidden!,
    ffn_hidden_size: widened!,
    kv_channels: head,
    num_attention_heads: attended! / head,
    multi_query_group_num: (rows! - attended!) / (2 * head),
    add_qkv_bias: tensors.find(`${base}${QKV}.bias`) !== undefined,
    ...(typeof eps === "number" && { layernorm_epsilon: eps }),
  };
}

interface Rows {
  /** u32 [prompts]: real tokens. */
  readonly lengths: Tensor;
  /** f32 [prompts, rows, 1, 1]: 1 for real tokens. */
  readonly mask: Tensor;
  readonly rotary: Rotation;
}

/**
 * The states after the last layer but one, and behind them the state of the last token after all layers, without a norm:
 * [prompts, rows · hidden_size + hidden_size].
 */
export function chatGlm3Encoder(
  { config, weights }: TextEncoderParts<ChatGlm3Config>,
  padId: number,
): TextEncoder {
  const { hidden_size: dim, kv_channels: head, num_layers: count } = config;
  const root = weights.root.has(`transformer.${TABLE}`)
    ? weights.root.scope("transformer")
    : weights.root;
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, dim),
      lengths: u32(prompts),
      mask: f32(prompts, rows, 1, 1),
      last: u32(prompts),
      cos: f32(prompts, rows, head / 2),
      sin: f32(prompts, rows, head / 2),
    }),
    trace({ embeddings, lengths, mask, last, cos, sin }, graph) {
      const layers = root.scope("encoder").scope("layers");
      checkDepth(layers, count, "input_layernorm.weight");
      const [prompts, rows] = embeddings!.shape as [number, number, number];
      const given = { lengths: lengths!, mask: mask!, rotary: { cos: cos!, sin: sin! } };
      let [x, before] = [embeddings!, embeddings!];
      for (let layer = 0; layer < count; layer++) {
        before = x;
        x = chatGlmLayer(graph, config, layers.scope(layer), layer, x, given);
      }
      const summary = gather(x.reshape(prompts * rows, dim), last!).reshape(prompts, dim);
      return concat([before.reshape(prompts, rows * dim), summary], 1);
    },
    values(tokens, rows) {
      const ids = padded(tokens, rows, padId).flat();
      const mask = tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => Number(i < length))
      );
      // The second half of a head does not turn.
      const places = mask.map((real, i) => [real * (i % rows), 0]);
      return {
        embeddings: weights.readRows(
          `${root.scope("embedding").scope("word_embeddings").path}.weight`,
          [config.padded_vocab_size, dim],
          ids,
        ),
        lengths: tokens.map(({ length }) => length),
        mask,
        last: tokens.map(({ length }, i) => i * rows + length - 1),
        ...rotaryTables(places, [head / 2, head / 2], THETA),
      };
    },
  };
}

function chatGlmLayer(
  graph: Graph,
  config: ChatGlm3Config,
  weights: WeightScope,
  layer: number,
  x: Tensor,
  { lengths, mask, rotary: { cos, sin } }: Rows,
): Tensor {
  const { hidden_size: dim, kv_channels: head, layernorm_epsilon: eps } = config;
  const { num_attention_heads: heads, multi_query_group_num: groups } = config;
  const [prompts, rows] = x.shape as [number, number, number];
  return graph.scope(`layers.${layer}`, () => {
    const norm = (name: string, input: Tensor) =>
      rmsNorm(input, { weight: weights.tensor(graph, `${name}.weight`, [dim]), eps, name });
    const self = weights.scope("self_attention");
    const all = linearLayer(
      ...[
        self,
        "query_key_value",
        norm("input_layernorm", x),
        (heads + 2 * groups) * head,
      ] as const,
    ).reshape(prompts, rows, heads + 2 * groups, head);
    const turned = rope(slice(all, 2, 0, heads + groups), cos, sin, { style: "interleaved" });
    const [query, key] = [slice(turned, 2, 0, heads), slice(turned, 2, heads, heads + groups)];
    const value = slice(all, 2, heads + groups, heads + 2 * groups);
    const own = attention(query, key, value, { causal: true, keyLengths: lengths, name: "own" });
    const filling = attention(query, key, value, { name: "filling" });
    const attended = elementwise("mask * a + (1.0 - mask) * b", { mask, a: own, b: filling }, {
      name: "attended",
    }).reshape(prompts, rows, heads * head);
    const y = linearLayer(self, "dense", attended, dim, { residual: x });
    const mlp = weights.scope("mlp");
    const hidden = packedGluLayer(
      ...[
        mlp,
        "dense_h_to_4h",
        norm("post_attention_layernorm", y),
        config.ffn_hidden_size,
      ] as const,
      { activation: "silu", activated: "first" },
    );
    return linearLayer(mlp, "dense_4h_to_h", hidden, dim, { residual: y });
  });
}
