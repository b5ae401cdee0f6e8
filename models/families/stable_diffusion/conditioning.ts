/** What the UNet makes of prompts and timesteps before any step. Source: diffusers `UNet2DConditionModel`. */
import { concat, elementwise, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { type UnetBlock, unetBlocks, type UnetConfig } from "./unet_config.ts";

/** Keys and values of one cross-attention, each [1, tokens, heads, headDim]. */
export interface TextState {
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Tensors by the module that reads them. */
export type ByModule<T> = Readonly<Record<string, T>>;

function allBlocks(config: UnetConfig): UnetBlock[] {
  const { down, mid, up } = unetBlocks(config);
  return [...down, ...(mid ? [mid] : []), ...up];
}

/** Keys and values of every cross-attention of a prompt, [1, tokens, cross_attention_dim]. */
export function unetTextStates(
  config: UnetConfig,
  weights: WeightScope,
  text: Tensor,
): ByModule<TextState> {
  const states: [string, TextState][] = [];
  for (const { name, channels, heads, depths } of allBlocks(config)) {
    depths.forEach((depth, layer) => {
      for (let i = 0; i < depth; i++) {
        const module = `${name}.attentions.${layer}.transformer_blocks.${i}`;
        const project = (part: string) =>
          text.graph.scope(
            `${module}.attn2`,
            () => linearLayer(weights.scope(`${module}.attn2`), part, text, channels),
          ).reshape(text.dim(0), text.dim(1), heads, channels / heads);
        states.push([module, { key: project("to_k"), value: project("to_v") }]);
      }
    });
  }
  return Object.fromEntries(states);
}

export interface EmbeddedSteps {
  /** Sinusoids of the timesteps, [steps, block_out_channels[0]]. */
  readonly timesteps: Tensor;
  /** SDXL: the prompt's pooled vector, [1, width], and the sinusoids of its time ids, [1, ids · addition_time_embed_dim]. */
  readonly added?: { readonly pooled: Tensor; readonly ids: Tensor } | undefined;
  /** Sinusoids of the guidance, [1, time_cond_proj_dim], for models that were distilled with it. */
  readonly guidance?: Tensor | undefined;
}

/** What every residual block adds to its first convolution, with its bias, [steps, channels]. */
export function unetTimeTables(
  config: UnetConfig,
  weights: WeightScope,
  { timesteps, added, guidance }: EmbeddedSteps,
): ByModule<Tensor> {
  const width = 4 * config.block_out_channels[0]!;
  const embedding = weights.scope("time_embedding");
  const input = guidance
    ? elementwise("t + g", {
      t: timesteps,
      g: linearLayer(embedding, "cond_proj", guidance, timesteps.dim(1)),
    })
    : timesteps;
  const own = embeddingLayers(embedding, input, width);
  const extra = added && embeddingLayers(
    weights.scope("add_embedding"),
    concat([added.pooled, added.ids], 1),
    width,
  );
  const activated = extra
    ? elementwise("act_silu(t + a)", { t: own, a: extra })
    : elementwise("act_silu(t)", { t: own });
  return Object.fromEntries(
    allBlocks(config).flatMap(({ name, channels, depths }) =>
      depths.map((_, layer) => {
        const module = `${name}.resnets.${layer}`;
        const scope = weights.scope(module);
        return [
          module,
          elementwise("t + b", {
            t: linearLayer(scope, "time_emb_proj", activated, channels),
            b: scope.tensor(timesteps.graph, "conv1.bias", [channels]),
          }, { name: `${module}.time` }),
        ] as const;
      })
    ),
  );
}
