/** What the UNet makes of prompts and timesteps before any step. Source: diffusers `UNet2DConditionModel`. */
import { concat, elementwise, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { residualModules, transformerModules, type UnetConfig } from "./unet_config.ts";

/** Keys and values of one cross-attention, each [1, tokens, heads, headDim]. */
export interface TextState {
  readonly key: Tensor;
  readonly value: Tensor;
}

/** Keys and values of every cross-attention of a prompt, [1, tokens, cross_attention_dim]. */
export function unetTextStates(
  config: UnetConfig,
  weights: WeightScope,
  text: Tensor,
): TextState[] {
  const [batch, tokens] = text.shape as [number, number];
  return transformerModules(config).map(({ name, channels, heads }) =>
    text.graph.scope(`${name}.attn2`, () => {
      const project = (part: string) =>
        linearLayer(weights.scope(`${name}.attn2`), part, text, channels)
          .reshape(batch, tokens, heads, channels / heads);
      return { key: project("to_k"), value: project("to_v") };
    })
  );
}

export interface EmbeddedSteps {
  /** Sinusoids of the timesteps, [steps, block_out_channels[0]]. */
  readonly timesteps: Tensor;
  /** SDXL: the prompt's pooled vector, [1, width], and the sinusoids of its time ids, [1, ids · addition_time_embed_dim]. */
  readonly added?: { readonly pooled: Tensor; readonly ids: Tensor } | undefined;
  /** Sinusoids of the guidance, [1, time_cond_proj_dim], for models that were distilled with it. */
  readonly guidance?: Tensor | undefined;
  /** Union ControlNets: the sinusoids of the kinds of pictures, 1 where it is this one, [1, kinds · addition_time_embed_dim]. */
  readonly kinds?: Tensor | undefined;
}

/** What every residual block adds to its first convolution, with its bias, [steps, channels]. */
export function unetTimeTables(
  config: UnetConfig,
  weights: WeightScope,
  { timesteps, added, guidance, kinds }: EmbeddedSteps,
): Tensor[] {
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
  const kind = kinds && embeddingLayers(weights.scope("control_add_embedding"), kinds, width);
  const sum = [extra, kind].filter((each) => each !== undefined)
    .reduce((t, a) => elementwise("t + a", { t, a }), own);
  const activated = elementwise("act_silu(t)", { t: sum });
  return residualModules(config).map(({ name, channels }) => {
    const scope = weights.scope(name);
    const projected = linearLayer(scope, "time_emb_proj", activated, channels);
    const bias = scope.tensor(timesteps.graph, "conv1.bias", [channels]);
    return elementwise("t + b", { t: projected, b: bias }, { name: `${name}.time` });
  });
}
