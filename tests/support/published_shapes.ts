/**
 * Names and shapes of published checkpoints without their numbers, and a device that is large enough for them.
 */
import assert from "node:assert/strict";
import type { ComponentFormat } from "../../models/checkpoints/component_format.ts";
import { recognise } from "../../models/checkpoints/recognise.ts";
import {
  BASELINE_TARGET,
  DeviceTensor,
  Graph,
  type Shape,
  type Target,
  type Tensor,
  Weights,
} from "../../runtime/mod.ts";
import { memoryTensors } from "./memory_tensors.ts";

/** Shapes by the names of tensors. */
export type Shapes = Record<string, Shape>;

const MOST = 2 ** 31 - 4;

/** A device whose buffers hold any of their tensors. */
export const LARGE: Target = {
  ...BASELINE_TARGET,
  limits: { ...BASELINE_TARGET.limits, maxBindingBytes: MOST, maxBufferBytes: MOST },
};

/** Weight and bias of a layer. */
export function layer(name: string, rows: number, columns: number): Shapes {
  return { [`${name}.weight`]: [rows, columns], [`${name}.bias`]: [rows] };
}

/** The tensors of blocks that are alike. */
export function repeated<Tensors extends object = Shapes>(
  count: number,
  of: (i: number) => Tensors,
): Tensors {
  return Object.assign({}, ...Array.from({ length: count }, (_, i) => of(i)));
}

export function prefixed(prefix: string, shapes: Shapes): Shapes {
  return Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [prefix + name, shape]));
}

/** Sizes of a language model: tokens, its width, its feed-forward's, elements of all queries, and of all keys. */
interface LanguageModelSizes {
  readonly layers: number;
  readonly vocabulary: number;
  readonly dim: number;
  readonly wide: number;
  readonly queries: number;
  readonly keys: number;
}

/** The tensors that language models of Qwen's and Mistral's kind share. */
export function languageModel(
  { layers, vocabulary, dim, wide, queries, keys }: LanguageModelSizes,
): Shapes {
  return {
    "embed_tokens.weight": [vocabulary, dim],
    "norm.weight": [dim],
    ...repeated(layers, (i) =>
      prefixed(`layers.${i}.`, {
        "self_attn.q_proj.weight": [queries, dim],
        "self_attn.k_proj.weight": [keys, dim],
        "self_attn.v_proj.weight": [keys, dim],
        "self_attn.o_proj.weight": [dim, queries],
        "mlp.gate_proj.weight": [wide, dim],
        "mlp.up_proj.weight": [wide, dim],
        "mlp.down_proj.weight": [dim, wide],
        "input_layernorm.weight": [dim],
        "post_attention_layernorm.weight": [dim],
      })),
  };
}

/** A file that holds one component, as it is recognised, and a graph to trace it in. */
interface OpenedComponent {
  readonly graph: Graph;
  readonly weights: Weights;
  readonly className: string;
  readonly json: ReturnType<ComponentFormat["config"]>;
  input(shape: number[], dtype?: "f32" | "u32"): Tensor;
}

/** Opens tensors that must be those of one component. */
export function openPublished(
  shapes: Shapes,
  formats: readonly ComponentFormat[],
): OpenedComponent {
  const [found, ...others] = recognise(memoryTensors(shapes), formats);
  assert.deepEqual(others, []);
  const graph = new Graph("test", LARGE);
  return {
    graph,
    weights: new Weights(found!.tensors),
    className: found!.format.className,
    json: found!.format.config(found!.tensors),
    input: (shape, dtype = "f32") => graph.use(new DeviceTensor("input", shape, dtype)),
  };
}
