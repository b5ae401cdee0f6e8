/**
 * Anima's text conditioner: T5's tokens, embedded by itself, attend the states of Qwen3.
 * Source: diffusers `AnimaTextConditioner`, whose module names are the weight names.
 */
import {
  attention,
  elementwise,
  f32,
  type Graph,
  rmsNorm,
  rope,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import { linearLayer } from "../../blocks/layers.ts";
import {
  padded,
  type TextEncoder,
  type TextEncoderParts,
} from "../../text_encoders/text_encoder.ts";
import type { AnimaConditionerConfig } from "./config.ts";

const EPS = 1e-6;
const THETA = 10000;

/** T5's tokens, embedded: [prompts, rows, model_dim], zeros behind them. */
export function tokenEmbeddings(
  { config, weights }: TextEncoderParts<AnimaConditionerConfig>,
  padId: number,
): TextEncoder {
  const { target_vocab_size, target_dim } = config;
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, target_dim),
      mask: f32(prompts, rows, 1),
    }),
    trace: ({ embeddings, mask }) => elementwise("x * m", { x: embeddings!, m: mask! }),
    values: (tokens, rows) => ({
      embeddings: weights.readRows(
        "embed.weight",
        [target_vocab_size, target_dim],
        padded(tokens, rows, padId).flat(),
      ),
      mask: tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => Number(i < length))
      ),
    }),
  };
}

interface ConditionerInputs {
  /** Of Qwen3, [1, its tokens, source_dim]. */
  readonly states: Tensor;
  /** From {@linkcode tokenEmbeddings}, [1, rows, model_dim]. */
  readonly embeddings: Tensor;
  /** T5's tokens, u32 [1]: the rows behind them are zeros in the result, which the transformer attends. */
  readonly length: Tensor;
  /** f32 [1, rows, 1]: 1 for tokens. */
  readonly mask: Tensor;
}

/** What the transformer sees of a prompt, [1, rows, target_dim]. */
export function animaConditioner(
  graph: Graph,
  config: AnimaConditionerConfig,
  weights: WeightScope,
  { states, embeddings, length, mask }: ConditionerInputs,
): Tensor {
  const { model_dim: dim, target_dim, num_attention_heads } = config;
  const norm = (scope: WeightScope, name: string, x: Tensor) =>
    rmsNorm(x, { weight: scope.tensor(graph, `${name}.weight`, [x.dim(-1)]), eps: EPS, name });
  const rotaryOf = (name: string, tokens: number) =>
    rotaryConstants(
      graph,
      name,
      Array.from({ length: tokens }, (_, i) => [i]),
      [dim / num_attention_heads],
      THETA,
    );
  const [own, others] = [rotaryOf("t5", embeddings.dim(1)), rotaryOf("qwen3", states.dim(1))];
  const attend = (
    scope: WeightScope,
    x: Tensor,
    seen: Tensor,
    places: Rotation,
    residual: Tensor,
    keyLengths?: Tensor,
  ) => {
    const project = (name: string, from: Tensor) =>
      linearLayer(scope, name, from, dim).reshape(1, from.dim(1), num_attention_heads, -1);
    const placed = (name: string, from: Tensor, { cos, sin }: Rotation) =>
      rope(norm(scope, `${name}_norm`, project(`${name}_proj`, from)), cos, sin, { style: "half" });
    const result = attention(
      placed("q", x, own),
      placed("k", seen, places),
      project("v_proj", seen),
      keyLengths && { keyLengths },
    );
    return linearLayer(scope, "o_proj", result.reshape(...x.shape), dim, { residual });
  };
  let x = embeddings;
  for (let layer = 0; layer < config.num_layers; layer++) {
    x = graph.scope(`blocks.${layer}`, () => {
      const block = weights.scope("blocks").scope(layer);
      const h = norm(block, "norm_self_attn", x);
      const y = attend(block.scope("self_attn"), h, h, own, x, length);
      const z = attend(
        block.scope("cross_attn"),
        norm(block, "norm_cross_attn", y),
        states,
        others,
        y,
      );
      const mlp = block.scope("mlp");
      const width = Math.trunc(dim * config.mlp_ratio);
      const hidden = linearLayer(mlp, "0", norm(block, "norm_mlp", z), width, {
        activation: "gelu",
      });
      return linearLayer(mlp, "2", hidden, dim, { residual: z });
    });
  }
  const result = norm(weights, "norm", linearLayer(weights, "out_proj", x, target_dim));
  return elementwise("x * m", { x: result, m: mask }, { name: "context" });
}
