/**
 * The LTX-2 transformer: tokens of a video and of its sound, each with attention to its own kind, to the prompt, and to each
 * other, which goes by the time alone.
 * Source: Lightricks 2025, LTX-2; diffusers `LTX2VideoTransformer3DModel`, whose module names are the weight names.
 */
import {
  elementwise,
  type Graph,
  rmsNorm,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { ltx2Attention, ltx2FeedForward } from "./attention.ts";
import { type Ltx2TransformerConfig, type Modality, streamOf } from "./config.ts";
import { type BlockVectors, type Ltx2Times, StepModulation } from "./modulation.ts";
import type { Ltx2Positions } from "./positions.ts";

/** Epsilon of the norms after the last block, whatever the configuration says of the others. */
const OUT_EPS = 1e-6;

/** What a modality has of something. */
export type Both<T> = { readonly [Key in Modality]: T };

interface Ltx2Inputs {
  /** Latents as tokens, [1, tokens, in_channels]. */
  readonly sample: Both<Tensor>;
  /** Prompt from {@linkcode ltx2Context}, [1, text tokens, dim]. */
  readonly context: Both<Tensor>;
  readonly positions: Ltx2Positions<Rotation>;
  readonly times: Ltx2Times<Tensor>;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  /** The rows of the timesteps of the video's tokens where these differ, u32 [n], and which of them each token has, u32 [1, tokens]. */
  readonly videoSteps?: Tensor | undefined;
  readonly tokenTimes?: Tensor | undefined;
  /** Blocks whose tokens see themselves alone. */
  readonly perturbed?: readonly number[];
  /** Whether video and sound do not see each other. */
  readonly isIsolated?: boolean;
}

/** The prompt as the blocks take it, of what its connectors give. */
export function ltx2Context(
  config: Ltx2TransformerConfig,
  weights: WeightScope,
  text: Both<Tensor>,
): Both<Tensor> {
  if (!config.use_prompt_embeddings) return text;
  const projected = (modality: Modality) => {
    const { dim, prefix } = streamOf(config, modality);
    const own = weights.scope(`${prefix}caption_projection`);
    const hidden = linearLayer(own, "linear_1", text[modality], dim, { activation: "gelu_tanh" });
    return linearLayer(own, "linear_2", hidden, dim);
  };
  return { video: projected("video"), audio: projected("audio") };
}

/** Predicts the velocity of both flows, of the tokens of each: [1, tokens, in_channels]. */
export function ltx2Transformer(
  graph: Graph,
  config: Ltx2TransformerConfig,
  weights: WeightScope,
  inputs: Ltx2Inputs,
): Both<Tensor> {
  const { sample, perturbed = [] } = inputs;
  const modulation = new StepModulation(config, weights, inputs.times, inputs);
  const embedded = (modality: Modality) => {
    const { dim, prefix } = streamOf(config, modality);
    return linearLayer(weights, `${prefix}proj_in`, sample[modality], dim);
  };
  let x: Both<Tensor> = { video: embedded("video"), audio: embedded("audio") };
  for (let layer = 0; layer < config.num_layers; layer++) {
    const block = weights.scope("transformer_blocks").scope(layer);
    x = graph.scope(`transformer_blocks.${layer}`, () =>
      ltx2Block(config, block, x, {
        ...inputs,
        vectors: {
          video: modulation.block(layer, "video"),
          audio: modulation.block(layer, "audio"),
        },
        isPerturbed: perturbed.includes(layer),
      }));
  }
  const out = (modality: Modality) => {
    const vector = modulation.out(modality);
    const name = `${streamOf(config, modality).prefix}proj_out`;
    return linearLayer(weights, name, x[modality], config.in_channels, {
      norm: { eps: OUT_EPS, scale: vector("scale"), shift: vector("shift") },
    });
  };
  return { video: out("video"), audio: out("audio") };
}

interface BlockInputs extends Pick<Ltx2Inputs, "context" | "positions" | "isIsolated"> {
  readonly vectors: Both<BlockVectors>;
  readonly isPerturbed: boolean;
}

function ltx2Block(
  config: Ltx2TransformerConfig,
  weights: WeightScope,
  x: Both<Tensor>,
  { context, positions, vectors, isPerturbed, isIsolated = false }: BlockInputs,
): Both<Tensor> {
  const { norm_eps: eps, rope_type: ropeType } = config;
  const norm = (y: Tensor, scale?: Tensor, shift?: Tensor) => rmsNorm(y, { eps, scale, shift });

  /** Attention to the tokens of its own kind, then to the prompt. */
  const alone = (modality: Modality): Tensor => {
    const { dim, heads, isGated, prefix } = streamOf(config, modality);
    const { own, text } = vectors[modality];
    const self = norm(x[modality], own("scale_msa"), own("shift_msa"));
    const y = ltx2Attention(weights.scope(`${prefix}attn1`), self, undefined, {
      ...{ heads, dim, ropeType, isGated, isPerturbed },
      rotary: positions[modality],
      gate: own("gate_msa"),
      residual: x[modality],
    });
    const query = text ? norm(y, own("scale_text"), own("shift_text")) : norm(y);
    const words = context[modality];
    const seen = text
      ? elementwise("x * (1.0 + scale) + shift", {
        x: words,
        scale: text("scale"),
        shift: text("shift"),
      }, { name: "text" })
      : words;
    return ltx2Attention(weights.scope(`${prefix}attn2`), query, seen, {
      ...{ heads, dim, ropeType, isGated },
      gate: text && own("gate_text"),
      residual: y,
    });
  };
  const y = { video: alone("video"), audio: alone("audio") };

  /** What a modality takes from the other; both see each other as they were before. */
  const crossed = (modality: Modality): Tensor => {
    const isVideo = modality === "video";
    const way = isVideo ? "a2v" : "v2a";
    const other = isVideo ? "audio" : "video";
    const seen = (which: Modality) => {
      const { cross } = vectors[which];
      return norm(y[which], cross(`scale_${way}`), cross(`shift_${way}`));
    };
    const name = isVideo ? "audio_to_video_attn" : "video_to_audio_attn";
    return ltx2Attention(weights.scope(name), seen(modality), seen(other), {
      heads: config.audio_num_attention_heads,
      dim: config.audio_cross_attention_dim,
      outDim: streamOf(config, modality).dim,
      ropeType,
      rotary: positions[`${modality}Cross`],
      keyRotary: positions[`${other}Cross`],
      isGated: streamOf(config, modality).isGated,
      gate: vectors[modality].crossGate,
      residual: y[modality],
    });
  };
  const z = isIsolated ? y : { video: crossed("video"), audio: crossed("audio") };

  const fed = (modality: Modality): Tensor => {
    const { own } = vectors[modality];
    const h = norm(z[modality], own("scale_mlp"), own("shift_mlp"));
    const name = `${streamOf(config, modality).prefix}ff`;
    return ltx2FeedForward(weights.scope(name), h, {
      gate: own("gate_mlp"),
      residual: z[modality],
    });
  };
  return { video: fed("video"), audio: fed("audio") };
}
