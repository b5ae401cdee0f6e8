/**
 * Gemma 3 as text encoder, and Gemma 2: causal language models with heads of 256, of which many layers see a window of the text
 * alone. Gemma 3 has an RMS norm per head before the positions, Gemma 2 caps the scores of attention.
 * Source: Gemma team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", and 2025, "Gemma 3 Technical Report";
 * transformers `Gemma2Model` and `Gemma3TextModel`, whose module names are the weight names.
 */
import {
  elementwise,
  type Graph,
  matmul,
  rmsNorm,
  rope,
  type Rotation,
  slice,
  softmax,
  type Tensor,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { rotaryConstants } from "../blocks/embeddings.ts";
import { gluLayer, linearLayer, linearLayers } from "../blocks/layers.ts";
import { rearrange } from "../rearrange.ts";
import type { Gemma3Config } from "./gemma3_config.ts";
import { languageModules, tokenEmbeddings } from "./qwen.ts";
import { checkDepth } from "./text_encoder.ts";

type Gemma3Own = "model_type" | "attn_logit_softcapping" | "sliding_window_pattern";

interface GemmaConfig extends Omit<Gemma3Config, Gemma3Own> {
  readonly model_type: "gemma2" | "gemma3_text";
  /** What the scores of attention come close to, and do not reach. */
  readonly attn_logit_softcapping?: number | null | undefined;
}

/** What hides a key, as softmax takes it: finite. */
const HIDDEN = -1e30;

/** Rows of the embedding table, scaled, [ids, hidden_size], read from the file: it is too large for the device. */
export function gemma3Embeddings(
  config: GemmaConfig,
  weights: Weights,
  ids: readonly number[],
): Float32Array<ArrayBuffer> {
  const scale = Math.fround(Math.sqrt(config.hidden_size));
  return tokenEmbeddings(config, weights, ids).map((value) => value * scale);
}

/**
 * States of texts, [batch, tokens, hidden_size] each: the embeddings, and those after each layer, of `last` layers if it is given;
 * those after the model's last have passed the final norm.
 */
export function gemma3Encoder(
  graph: Graph,
  config: GemmaConfig,
  weights: WeightScope,
  embeddings: Tensor,
  last?: number,
): Tensor[] {
  const { num_hidden_layers: count, head_dim } = config;
  const model = languageModules(weights);
  checkDepth(model.scope("layers"), count, "input_layernorm.weight");
  const tokens = embeddings.dim(1);
  const kinds = [...new Set(config.layer_types)].map((kind) => {
    const { theta, factor } = config.rope[kind];
    const positions = Array.from({ length: tokens }, (_, position) => [position / factor]);
    const reach = kind === "sliding_attention" ? config.sliding_window : tokens;
    return [kind, {
      rotary: rotaryConstants(graph, `rope ${kind}`, positions, [head_dim], theta),
      mask: causalMask(graph, tokens, Math.min(reach, tokens)),
    }] as const;
  });
  const sights = new Map(kinds);
  const states = [embeddings];
  for (let layer = 0; layer < (last ?? count); layer++) {
    const sight = sights.get(config.layer_types[layer]!)!;
    const scope = model.scope("layers").scope(layer);
    states.push(
      graph.scope(`layers.${layer}`, () => gemma3Layer(config, scope, states[layer]!, sight)),
    );
  }
  if (states[count]) states[count] = norm(config, model, "norm", states[count]);
  return states;
}

/** Added to logits, [tokens, tokens]: of a token the last `reach` up to itself are seen. */
function causalMask(graph: Graph, tokens: number, reach: number): Tensor {
  const values = () =>
    Float32Array.from({ length: tokens ** 2 }, (_, i) => {
      const distance = Math.floor(i / tokens) - i % tokens;
      return distance >= 0 && distance < reach ? 0 : HIDDEN;
    });
  return graph.constant(`mask ${reach}`, [tokens, tokens], "f32", values);
}

/** Files of transformers hold what weights are above 1, those of llama.cpp the weights themselves. */
function norm(config: GemmaConfig, weights: WeightScope, name: string, x: Tensor): Tensor {
  const weight = weights.scope(name).tensor(x.graph, "weight", [x.dim(-1)]);
  return rmsNorm(x, {
    ...config.norms_from_one ? { scale: weight } : { weight },
    eps: config.rms_norm_eps,
    name,
  });
}

function gemma3Layer(
  config: GemmaConfig,
  weights: WeightScope,
  x: Tensor,
  { rotary, mask }: { readonly rotary: Rotation; readonly mask: Tensor },
): Tensor {
  const { num_attention_heads: heads, num_key_value_heads: kvHeads, head_dim: headDim } = config;
  const [batch, tokens, dim] = x.shape as [number, number, number];
  const self = weights.scope("self_attn");
  const h = norm(config, weights, "input_layernorm", x);
  const query = linearLayer(self, "q_proj", h, heads * headDim);
  const keyValue = linearLayers(self, ["k_proj", "v_proj"], h, kvHeads * headDim);
  const split = (projected: Tensor) => projected.reshape(batch, tokens, -1, headDim);
  const normed = (name: string, projected: Tensor) =>
    config.model_type === "gemma3_text" ? norm(config, self, name, projected) : projected;
  const placed = (name: string, projected: Tensor) =>
    rope(normed(name, split(projected)), rotary.cos, rotary.sin, { style: "half" });
  const groups = { k: kvHeads };
  const q = rearrange(placed("q_norm", query), "b n (k g) d -> b k (g n) d", groups);
  const k = rearrange(placed("k_norm", slice(keyValue, 0, 0, 1)), "b n k d -> b k n d");
  const v = rearrange(split(slice(keyValue, 0, 1, 2)), "b n k d -> b k n d");
  const logits = matmul(q, k, { transposeB: true, scale: config.query_pre_attn_scalar ** -0.5 });
  const scores = logits.reshape(batch, -1, tokens, tokens);
  const cap = config.attn_logit_softcapping;
  const seen = cap
    ? elementwise("cap * act_tanh(x / cap) + mask", { x: scores, mask }, { scalars: { cap } })
    : elementwise("x + mask", { x: scores, mask });
  const attended = matmul(softmax(seen).reshape(...logits.shape), v);
  const joined = rearrange(attended, "b k (g n) d -> b n (k g d)", { n: tokens });
  const output = linearLayer(self, "o_proj", joined, dim);
  const y = elementwise("x + y", {
    x,
    y: norm(config, weights, "post_attention_layernorm", output),
  });

  const mlp = weights.scope("mlp");
  const h2 = norm(config, weights, "pre_feedforward_layernorm", y);
  const names = ["gate_proj", "up_proj"] as const;
  const hidden = gluLayer(mlp, names, h2, config.intermediate_size, "gelu_tanh");
  const z = linearLayer(mlp, "down_proj", hidden, dim);
  return elementwise("x + y", { x: y, y: norm(config, weights, "post_feedforward_layernorm", z) });
}
