/**
 * Blocks in which text and image have weights of their own and attend each other.
 * Source: Esser et al. 2024, "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis" (MM-DiT);
 * diffusers `FluxTransformerBlock`, `Flux2TransformerBlock` and `QwenImageTransformerBlock`.
 */
import {
  concat,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../runtime/mod.ts";
import { linearLayer, linearLayers } from "./layers.ts";
import type { TokenSplit } from "../sharing/token_split.ts";

export interface HeadsConfig {
  readonly num_attention_heads: number;
  readonly attention_head_dim: number;
  readonly eps: number;
}

/** Queries, keys and values, each [1, tokens, heads, headDim]. */
export type Projections = readonly [query: Tensor, key: Tensor, value: Tensor];

/** Vectors that the timestep gives a stream of a double block, in the order of the rows of its modulation layer. */
export const DOUBLE_MODULATION = [
  "shift_msa",
  "scale_msa",
  "gate_msa",
  "shift_mlp",
  "scale_mlp",
  "gate_mlp",
] as const;
export const SINGLE_MODULATION = ["shift", "scale", "gate"] as const;
export const OUT_MODULATION = ["scale", "shift"] as const;

/** Vectors by name, each [1, 1, dim]. */
export type Vectors<Names extends readonly string[]> = Readonly<Record<Names[number], Tensor>>;

export type StreamModulation = Vectors<typeof DOUBLE_MODULATION>;

/** Values by stream. Given images are a stream of their own where other vectors modulate them than the result. */
export interface Streams<T> {
  readonly text: T;
  readonly image: T;
  readonly reference?: T | undefined;
}

type StreamName = keyof Streams<unknown>;

const IMAGE_LAYERS = {
  projections: ["to_q", "to_k", "to_v"],
  norms: ["norm_q", "norm_k"],
  output: "to_out.0",
} as const;

const LAYERS = {
  text: {
    projections: ["add_q_proj", "add_k_proj", "add_v_proj"],
    norms: ["norm_added_q", "norm_added_k"],
    output: "to_add_out",
  },
  image: IMAGE_LAYERS,
  reference: IMAGE_LAYERS,
} as const;

const FEED_FORWARDS = { image: "ff", text: "ff_context" };

/** Joint attention, then `feedForward`, x + gate · branch of the modulated norm of x, for each stream. */
export function doubleBlock(
  config: HeadsConfig,
  weights: WeightScope,
  streams: Streams<Tensor>,
  modulation: Streams<StreamModulation>,
  rotary: Streams<Rotation | undefined>,
  feedForward: (weights: WeightScope, x: Tensor, modulation: StreamModulation) => Tensor,
  split: TokenSplit,
  names = FEED_FORWARDS,
): Streams<Tensor> {
  const attn = weights.scope("attn");
  const project = (kind: StreamName) => {
    const { scale_msa: scale, shift_msa: shift } = modulation[kind]!;
    const x = streams[kind]!;
    const joined = linearLayers(attn, LAYERS[kind].projections, x, x.dim(-1), {
      norm: { eps: config.eps, scale, shift },
    });
    return headProjections(config, attn, LAYERS[kind].norms, joined, rotary[kind]);
  };
  const kinds: readonly StreamName[] = streams.reference
    ? ["text", "image", "reference"]
    : ["text", "image"];
  const projected = kinds.map(project);
  const join = (i: 0 | 1 | 2) => concat(projected.map((parts) => parts[i]), 1);
  const attended = attend([join(0), join(1), join(2)], split);
  let first = 0;
  const results = kinds.map((kind) => {
    const x = streams[kind]!;
    const part = slice(attended, 1, first, first += x.dim(1));
    const y = linearLayer(attn, LAYERS[kind].output, part, part.dim(-1), {
      gate: modulation[kind]!.gate_msa,
      residual: x,
    });
    const name = names[kind === "text" ? "text" : "image"];
    return [kind, feedForward(weights.scope(name), y, modulation[kind]!)] as const;
  });
  return Object.fromEntries(results) as unknown as Streams<Tensor>;
}

/** Heads of queries, keys and values, [3, 1, tokens, dim]; the first two normalised and turned by positions if there are any. */
export function headProjections(
  config: HeadsConfig,
  weights: WeightScope,
  norms: readonly [query: string, key: string] | undefined,
  joined: Tensor,
  rotary?: Rotation,
): Projections {
  const { num_attention_heads: heads, attention_head_dim: headDim, eps } = config;
  const [, batch, tokens] = joined.shape as [number, number, number];
  const [query, key, value] = [0, 1, 2].map((i) =>
    slice(joined, 0, i, i + 1).reshape(batch, tokens, heads, headDim)
  ) as [Tensor, Tensor, Tensor];
  if (!norms) return [query, key, value];
  const turned = rotary && { rotary: { ...rotary, hasHeadAxis: true } };
  const normalized = (name: string, x: Tensor) => {
    const weight = weights.tensor(x.graph, `${name}.weight`, [headDim]);
    return rmsNorm(x, { weight, eps, ...turned, name });
  };
  return [normalized(norms[0], query), normalized(norms[1], key), value];
}

/** Attention of all tokens to all: [1, tokens, dim]. */
export function attend([query, key, value]: Projections, split: TokenSplit): Tensor {
  const result = split.attention(query, key, value);
  return result.reshape(result.dim(0), result.dim(1), -1);
}

/** Takes vectors off a table, [rows, 1, dim], one after the other. */
export function takeVectors(
  table: Tensor,
): <Names extends readonly string[]>(names: Names) => Vectors<Names> {
  let first = 0;
  return <Names extends readonly string[]>(names: Names) => {
    const start = first;
    first += names.length;
    const entries = names.map((name, i) =>
      [name, slice(table, 0, start + i, start + i + 1, { name })] as const
    );
    return Object.fromEntries(entries) as Vectors<Names>;
  };
}

export const MLP_RATIO = 4;

export function geluFeedForward(
  eps: number,
): (weights: WeightScope, x: Tensor, modulation: StreamModulation) => Tensor {
  return (weights, x, { scale_mlp: scale, shift_mlp: shift, gate_mlp: gate }) => {
    const dim = x.dim(-1);
    const hidden = linearLayer(weights, "net.0.proj", x, MLP_RATIO * dim, {
      norm: { eps, scale, shift },
      activation: "gelu_tanh",
    });
    return linearLayer(weights, "net.2", hidden, dim, { gate, residual: x });
  };
}
