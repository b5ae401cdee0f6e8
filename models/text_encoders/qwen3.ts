/**
 * Qwen3, a causal language model whose states after chosen layers are what image models see of a prompt: grouped
 * queries, an RMS norm per head before the rotary positions, SwiGLU.
 *
 * Source: Qwen team 2025, "Qwen3 Technical Report"; transformers `Qwen3Model`, whose module names are the weight names.
 */
import { z } from "zod";
import {
  attention,
  concat,
  f32,
  type Graph,
  rmsNorm,
  rope,
  slice,
  type Tensor,
  u32,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { rotaryTables } from "../embeddings.ts";
import { gluLayer, linearLayer, linearLayers } from "../layers.ts";
import type { TextEncoder, TextEncoderParts } from "./text_encoder.ts";

/** Base of the rotary frequencies where a file has none; transformers' default. */
const DEFAULT_ROPE_THETA = 10000;

const ROPE_PARAMETERS = z.object({
  rope_theta: z.number().positive().optional(),
  rope_type: z.literal("default").default("default"),
});

/** What `config.json` of the encoder may say; defaults are those of transformers' `Qwen3Config`. */
export const QWEN3_CONFIG = z.object({
  model_type: z.literal("qwen3").default("qwen3"),
  vocab_size: z.int().positive().default(151936),
  hidden_size: z.int().positive().default(4096),
  intermediate_size: z.int().positive().default(22016),
  num_hidden_layers: z.int().positive().default(32),
  num_attention_heads: z.int().positive().default(32),
  num_key_value_heads: z.int().positive().nullish(),
  head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  hidden_act: z.literal("silu").default("silu"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  /** Where transformers before 5 wrote the base of the frequencies. */
  rope_theta: z.number().positive().nullish(),
  rope_parameters: ROPE_PARAMETERS.nullish(),
  rope_scaling: z.null("scaled rotary positions (rope_scaling) are not supported").default(null),
  use_sliding_window: z.literal(false).default(false),
}).refine(
  ({ num_attention_heads: heads, num_key_value_heads: kvHeads }) =>
    heads % (kvHeads ?? heads) === 0,
  { path: ["num_key_value_heads"], message: "it must divide num_attention_heads" },
).transform(({ num_key_value_heads, rope_theta, rope_parameters, ...config }) => ({
  ...config,
  num_key_value_heads: num_key_value_heads ?? config.num_attention_heads,
  rope_theta: rope_parameters?.rope_theta ?? rope_theta ?? DEFAULT_ROPE_THETA,
}));

/** Parsed {@linkcode QWEN3_CONFIG}. */
export type Qwen3Config = z.output<typeof QWEN3_CONFIG>;

/** Inputs of the encoder. */
interface Qwen3Inputs {
  /** f32 [batch, tokens, hidden_size] of {@linkcode qwen3Embeddings}; rows are padded at their end. */
  readonly embeddings: Tensor;
  /** u32 [batch]: real tokens per row; keys beyond are not attended. */
  readonly lengths: Tensor;
}

/** Where the modules are: below `model` in files of the whole language model. */
function modules(weights: WeightScope): WeightScope {
  return weights.has("model.embed_tokens.weight") ? weights.scope("model") : weights;
}

/**
 * Rows of the embedding table, read from the file: the table is far too large for the few rows that a prompt needs to
 * be on the device.
 *
 * @param ids of all tokens, pads included
 * @returns [ids, hidden_size]
 * @throws {RangeError} when an id is not in the vocabulary
 */
export function qwen3Embeddings(
  config: Qwen3Config,
  weights: Weights,
  ids: readonly number[],
): Float32Array<ArrayBuffer> {
  const unknown = ids.find((id) => !(id >= 0 && id < config.vocab_size));
  if (unknown !== undefined) {
    throw new RangeError(
      `Cannot embed token ${unknown}: the text encoder's vocab_size is ${config.vocab_size}`,
    );
  }
  const name = `${modules(weights.root).scope("embed_tokens").path}.weight`;
  return weights.readRows(name, [config.vocab_size, config.hidden_size], ids);
}

/**
 * The forward pass, as far as the last of the chosen layers.
 *
 * @param layers which states to return, numbered as transformers' `hidden_states`: 0 is the embeddings, n what the
 *   n-th layer gives; only the last of all, `num_hidden_layers`, has passed the final norm
 * @returns for each of `layers` the states [batch, tokens, hidden_size]. Rows of pad tokens hold what the reference has
 *   there: states of tokens that see the whole prompt
 * @throws {RangeError} when the model has no such layer
 */
export function qwen3Encoder(
  graph: Graph,
  config: Qwen3Config,
  weights: WeightScope,
  { embeddings, lengths }: Qwen3Inputs,
  layers: readonly number[],
): Tensor[] {
  const { num_hidden_layers: count, hidden_size: dim, rms_norm_eps: eps, head_dim } = config;
  const wrong = layers.find((layer) => !(Number.isInteger(layer) && layer >= 0 && layer <= count));
  if (wrong !== undefined) {
    throw new RangeError(
      `Cannot take the states after layer ${wrong}: the text encoder has ${count} layers`,
    );
  }
  const model = modules(weights);
  const tokens = embeddings.dim(1);
  const positions = Array.from({ length: tokens }, (_, position) => [position]);
  const tables = rotaryTables(positions, [head_dim], config.rope_theta);
  const table = (name: "cos" | "sin") =>
    graph.constant(`rope_${name}`, [tokens, head_dim / 2], "f32", tables[name]);
  const rotary = { cos: table("cos"), sin: table("sin") };
  const states = [embeddings];
  for (let layer = 0; layer < Math.max(...layers); layer++) {
    states.push(graph.scope(`layers.${layer}`, () => {
      const scope = model.scope("layers").scope(layer);
      return qwen3Layer(config, scope, states[layer]!, lengths, rotary);
    }));
  }
  return layers.map((layer) =>
    layer < count ? states[layer]! : rmsNorm(states[layer]!, {
      weight: model.tensor(graph, "norm.weight", [dim]),
      eps,
      name: "norm",
    })
  );
}

/** One layer: x + attention, x + SwiGLU, each of its normalised input. */
function qwen3Layer(
  config: Qwen3Config,
  weights: WeightScope,
  x: Tensor,
  lengths: Tensor,
  { cos, sin }: { readonly cos: Tensor; readonly sin: Tensor },
): Tensor {
  const { head_dim: headDim, num_key_value_heads: kvHeads, rms_norm_eps: eps } = config;
  const [batch, tokens, dim] = x.shape as [number, number, number];
  const norm = (name: string, input: Tensor, scope = weights) =>
    rmsNorm(input, {
      weight: scope.scope(name).tensor(x.graph, "weight", [input.dim(-1)]),
      eps,
      name,
    });
  const self = weights.scope("self_attn");
  const heads = (projected: Tensor) => projected.reshape(batch, tokens, -1, headDim);
  const placed = (name: string, projected: Tensor) =>
    rope(norm(name, heads(projected), self), cos, sin, { style: "half" });
  const h = norm("input_layernorm", x);
  const query = linearLayer(self, "q_proj", h, config.num_attention_heads * headDim);
  const keyValue = linearLayers(self, ["k_proj", "v_proj"], h, kvHeads * headDim);
  const attended = attention(
    placed("q_norm", query),
    placed("k_norm", slice(keyValue, 0, 0, 1)),
    heads(slice(keyValue, 0, 1, 2)),
    { causal: true, keyLengths: lengths, name: "self_attn" },
  ).reshape(batch, tokens, -1);
  const y = linearLayer(self, "o_proj", attended, dim, { residual: x });

  const mlp = weights.scope("mlp");
  const normed = norm("post_attention_layernorm", y);
  const { intermediate_size } = config;
  const hidden = gluLayer(mlp, ["gate_proj", "up_proj"], normed, intermediate_size, "silu");
  return linearLayer(mlp, "down_proj", hidden, dim, { residual: y });
}

/**
 * Qwen3 for pipelines.
 *
 * @param padId token that prompts are padded with
 * @param layers whose states are given, side by side; see {@linkcode qwen3Encoder}
 */
export function qwen3TextEncoder(
  { config, weights }: TextEncoderParts<Qwen3Config>,
  padId: number,
  layers: readonly number[],
): TextEncoder {
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, config.hidden_size),
      lengths: u32(prompts),
    }),
    trace: ({ embeddings, lengths }, graph) => {
      const inputs = { embeddings: embeddings!, lengths: lengths! };
      const states = qwen3Encoder(graph, config, weights.root, inputs, layers);
      return states.length === 1 ? states[0]! : concat(states, -1);
    },
    values: (tokens, rows) => {
      const ids = tokens.flatMap((own) => [
        ...own,
        ...new Array<number>(rows - own.length).fill(padId),
      ]);
      return {
        embeddings: qwen3Embeddings(config, weights, ids),
        lengths: tokens.map(({ length }) => length),
      };
    },
  };
}
