/** The blocks of the image autoencoders, channels-last; the UNet of Stable Diffusion has some, too. Source: diffusers `vae.py`, `unet_2d_blocks.py` and `resnet.py`. */
import {
  groupNorm,
  type GroupNormOptions,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { convolutionLayer, linearLayer, wideAttention } from "../../blocks/layers.ts";
import type { KlCoderConfig } from "./config.ts";

/** Added to variances by every norm of the autoencoders; no config changes it. */
const NORM_EPS = 1e-6;

type NormGroups = Pick<KlCoderConfig, "norm_num_groups">;

interface NormOptions {
  readonly eps?: number;
  readonly activation?: "silu" | "none";
}

export function normOf(
  config: NormGroups,
  weights: WeightScope,
  name: string,
  x: Tensor,
  { eps = NORM_EPS, activation = "silu" }: NormOptions = {},
): GroupNormOptions {
  const scope = weights.scope(name);
  const channels = x.dim(-1);
  return {
    groups: config.norm_num_groups,
    eps,
    weight: scope.tensor(x.graph, "weight", [channels]),
    bias: scope.tensor(x.graph, "bias", [channels]),
    activation,
    name,
  };
}

/** `bias` is what the first convolution adds where that is more than its own. */
export function residualBlock(
  config: NormGroups,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  { eps = NORM_EPS, bias }: { readonly eps?: number; readonly bias?: Tensor } = {},
): Tensor {
  const residual = x.dim(-1) === outChannels
    ? x
    : linearLayer(weights, "conv_shortcut", x, outChannels);
  const h = convolutionLayer(weights, "conv1", x, outChannels, {
    norm: normOf(config, weights, "norm1", x, { eps }),
    ...(bias && { bias }),
  });
  return convolutionLayer(weights, "conv2", h, outChannels, {
    norm: normOf(config, weights, "norm2", h, { eps }),
    residual,
  });
}

export function residualBlocks(
  config: NormGroups,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  count: number,
): Tensor {
  let h = x;
  for (let i = 0; i < count; i++) {
    const block = weights.scope("resnets").scope(i);
    h = x.graph.scope(`resnets.${i}`, () => residualBlock(config, block, h, outChannels));
  }
  return h;
}

function attentionBlock(config: NormGroups, weights: WeightScope, x: Tensor): Tensor {
  const [batch, height, width, channels] = x.shape as [number, number, number, number];
  const tokens = [batch, height * width, channels];
  const norm = normOf(config, weights, "group_norm", x, { activation: "none" });
  const normed = groupNorm(x, norm).reshape(...tokens);
  const [query, key, value] = ["to_q", "to_k", "to_v"].map((name) =>
    linearLayer(weights, name, normed, channels)
  );
  const attended = wideAttention(query!, key!, value!);
  const residual = x.reshape(...tokens);
  return linearLayer(weights, "to_out.0", attended, channels, { residual }).reshape(...x.shape);
}

export function midBlock(
  config: NormGroups & Pick<KlCoderConfig, "mid_block_add_attention">,
  weights: WeightScope,
  x: Tensor,
): Tensor {
  const { graph } = x;
  const channels = x.dim(-1);
  const resnet = (i: number, input: Tensor) =>
    graph.scope(
      `resnets.${i}`,
      () => residualBlock(config, weights.scope("resnets").scope(i), input, channels),
    );
  let h = resnet(0, x);
  if (config.mid_block_add_attention) {
    const attention = weights.scope("attentions").scope(0);
    h = graph.scope("attentions.0", () => attentionBlock(config, attention, h));
  }
  return resnet(1, h);
}
