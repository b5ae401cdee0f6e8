/**
 * Qwen's causal language models, and Mistral's. Qwen3 has an RMS norm per head before the positions, Qwen2.5 biases,
 * Mistral's neither.
 * Source: Qwen team 2025, "Qwen3 Technical Report" and "Qwen2.5-VL Technical Report"; transformers `Qwen3Model`,
 * `Qwen2_5_VLTextModel` and `Ministral3Model`, whose module names are the weight names.
 */
import {
  attention,
  concat,
  elementwise,
  f32,
  gather,
  type Graph,
  rmsNorm,
  rope,
  type RopeStyle,
  type Rotation,
  slice,
  type Tensor,
  u32,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { angleConstants, rotaryConstants, rotaryTables } from "../blocks/embeddings.ts";
import { gluLayer, linearLayer, linearLayers } from "../blocks/layers.ts";
import { checkDepth, padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

export interface QwenConfig {
  readonly model_type: "qwen3" | "qwen2_5_vl" | "ministral3" | "mistral";
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  /** Of each pair of a head, where they are not the powers of `rope_theta`. */
  readonly frequencies?: readonly number[] | undefined;
  /** Which elements of a head make a pair; halves by default. */
  readonly rope_style?: RopeStyle | undefined;
}

interface QwenInputs {
  /** f32 [batch, tokens, hidden_size] of {@linkcode tokenEmbeddings}; rows are padded at their end. */
  readonly embeddings: Tensor;
  /** u32 [batch]: real tokens per row; keys beyond are not attended. */
  readonly lengths: Tensor;
  /** Positions of the rows, [tokens, head_dim / 2], with [batch] before them where they differ; one after the other by default. */
  readonly rotary?: Rotation;
  /** f32 [batch, tokens, 1]: 0 for rows that attend to nothing; all attend by default. */
  readonly attending?: Tensor;
  /** Whether the last state is taken before the final norm. */
  readonly isRaw?: boolean;
  /** What becomes of a state after a layer; the state that is taken there is the one before. */
  after?(x: Tensor, layer: number): Tensor;
}

const WRAPPERS = ["model", "model.language_model", "language_model", "language_model.model"];

/** Where the layers of a language model are among its file's tensors. */
export function languageModules(weights: WeightScope): WeightScope {
  const wrapper = WRAPPERS.find((name) => weights.has(`${name}.embed_tokens.weight`));
  return wrapper === undefined ? weights : weights.scope(wrapper);
}

/** Rows of the embedding table, [ids, hidden_size], read from the file: it is too large for the device. */
export function tokenEmbeddings(
  config: Pick<QwenConfig, "vocab_size" | "hidden_size">,
  weights: Weights,
  ids: readonly number[],
): Float32Array<ArrayBuffer> {
  const unknown = ids.find((id) => !(id >= 0 && id < config.vocab_size));
  if (unknown !== undefined) {
    throw new RangeError(
      `Cannot embed token ${unknown}: the text encoder's vocab_size is ${config.vocab_size}`,
    );
  }
  const name = `${languageModules(weights.root).scope("embed_tokens").path}.weight`;
  return weights.readRows(name, [config.vocab_size, config.hidden_size], ids);
}

/** States, [batch, tokens, hidden_size], numbered as transformers' `hidden_states`; only the last has passed the final norm, unless it is raw. */
export function qwenEncoder(
  graph: Graph,
  config: QwenConfig,
  weights: WeightScope,
  { embeddings, lengths, rotary: given, attending, isRaw, after = (x) => x }: QwenInputs,
  layers: readonly number[],
): Tensor[] {
  const { num_hidden_layers: count, hidden_size: dim, rms_norm_eps: eps, head_dim } = config;
  const wrong = layers.find((layer) => !(Number.isInteger(layer) && layer >= 0 && layer <= count));
  if (wrong !== undefined) {
    throw new RangeError(
      `Cannot take the states after layer ${wrong}: the text encoder has ${count} layers`,
    );
  }
  const model = languageModules(weights);
  checkDepth(model.scope("layers"), count, "input_layernorm.weight");
  const tokens = embeddings.dim(1);
  const { frequencies, rope_theta } = config;
  const positions = Array.from({ length: tokens }, (_, position) => position);
  const rotary = given ?? (frequencies
    ? angleConstants(
      ...[graph, "rope", frequencies.length] as const,
      positions.flatMap((position) => frequencies.map((frequency) => position * frequency)),
    )
    : rotaryConstants(graph, "rope", positions.map((p) => [p]), [head_dim], rope_theta));
  const states = [embeddings];
  let x = embeddings;
  for (let layer = 0; layer < Math.max(...layers); layer++) {
    x = graph.scope(`layers.${layer}`, () => {
      const scope = model.scope("layers").scope(layer);
      const state = qwenLayer(config, scope, x, { lengths, rotary, attending });
      states.push(state);
      return after(state, layer);
    });
  }
  return layers.map((layer) =>
    layer < count ? states[layer]! : isRaw ? x : rmsNorm(x, {
      weight: model.tensor(graph, "norm.weight", [dim]),
      eps,
      name: "norm",
    })
  );
}

function qwenLayer(
  config: QwenConfig,
  weights: WeightScope,
  x: Tensor,
  { lengths, rotary: { cos, sin }, attending }: {
    readonly lengths: Tensor;
    readonly rotary: Rotation;
    readonly attending: Tensor | undefined;
  },
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
  const normed = (name: string, projected: Tensor) =>
    config.model_type === "qwen3" ? norm(name, heads(projected), self) : heads(projected);
  const placed = (name: string, projected: Tensor) =>
    rope(normed(name, projected), cos, sin, { style: config.rope_style ?? "half" });
  const h = norm("input_layernorm", x);
  const query = linearLayer(self, "q_proj", h, config.num_attention_heads * headDim);
  const keyValue = linearLayers(self, ["k_proj", "v_proj"], h, kvHeads * headDim);
  const attended = attention(
    placed("q_norm", query),
    placed("k_norm", slice(keyValue, 0, 0, 1)),
    heads(slice(keyValue, 0, 1, 2)),
    { causal: true, keyLengths: lengths, name: "self_attn" },
  ).reshape(batch, tokens, -1);
  const seen = attending
    ? elementwise("x * seen", { x: attended, seen: attending }, { name: "attending" })
    : attended;
  const y = linearLayer(self, "o_proj", seen, dim, { residual: x });

  const mlp = weights.scope("mlp");
  const h2 = norm("post_attention_layernorm", y);
  const { intermediate_size } = config;
  const hidden = gluLayer(mlp, ["gate_proj", "up_proj"], h2, intermediate_size, "silu");
  return linearLayer(mlp, "down_proj", hidden, dim, { residual: y });
}

interface QwenOptions extends Pick<QwenInputs, "isRaw"> {
  /** The position of all that fills a prompt up, where its states are taken, too; the places after the prompt by default. */
  readonly padPosition?: number;
  /** Whether prompts are filled up before their first token, where their states are taken, too: what fills them up attends to nothing. */
  readonly padsLeft?: boolean;
  /** Whether the states of what fills prompts up are 0. */
  readonly zeroesPadding?: boolean;
}

export function qwenTextEncoder(
  { config, weights }: TextEncoderParts<QwenConfig>,
  padId: number,
  layers: readonly number[],
  { isRaw = false, padPosition, padsLeft = false, zeroesPadding = false }: QwenOptions = {},
): TextEncoder {
  const { hidden_size, head_dim, rope_theta } = config;
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, hidden_size),
      lengths: u32(prompts),
      ...(padPosition !== undefined && {
        cos: f32(prompts, rows, head_dim / 2),
        sin: f32(prompts, rows, head_dim / 2),
      }),
      ...(padsLeft && { attending: f32(prompts, rows, 1), sources: u32(prompts, rows) }),
      ...(zeroesPadding && { mask: f32(prompts, rows, 1) }),
    }),
    trace: ({ embeddings, lengths, cos, sin, attending, sources, mask }, graph) => {
      const states = qwenEncoder(graph, config, weights.root, {
        embeddings: embeddings!,
        lengths: lengths!,
        isRaw,
        ...(cos && sin && { rotary: { cos, sin } }),
        ...(attending && { attending }),
      }, layers);
      const all = concat(states, -1);
      const seen = mask ? elementwise("x * mask", { x: all, mask }, { name: "text" }) : all;
      return sources ? gather(seen.reshape(-1, seen.dim(-1)), sources) : seen;
    },
    values: (tokens, rows) => {
      const ids = padded(tokens, rows, padId).flat();
      const positions = tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => [i < length ? i : padPosition ?? i])
      );
      const mask = tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => Number(i < length))
      );
      return {
        embeddings: tokenEmbeddings(config, weights, ids),
        lengths: tokens.map(({ length }) => length),
        ...(padPosition !== undefined && rotaryTables(positions, [head_dim], rope_theta)),
        ...(zeroesPadding && { mask }),
        ...(padsLeft && {
          attending: mask,
          // What comes before a prompt is computed behind it, and is the same in every row.
          sources: tokens.flatMap(({ length }, prompt) =>
            Array.from({ length: rows }, (_, i) => {
              const place = i - (rows - length);
              return prompt * rows + (place < 0 ? length : place);
            })
          ),
        }),
      };
    },
  };
}
