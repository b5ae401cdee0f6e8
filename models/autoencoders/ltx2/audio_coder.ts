/**
 * LTX-2's autoencoder of mel spectrograms, [1, frames, bands, channels]: no frame sees a later one.
 * Source: diffusers `autoencoder_kl_ltx2_audio.py`.
 */
import {
  conv2d,
  type Conv2dOptions,
  elementwise,
  type Graph,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { convolutionLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import { audioFeatures, type Ltx2AudioVaeConfig } from "./audio_config.ts";
import { statistics } from "./video_coder.ts";

function causalConv(
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  options: Conv2dOptions = {},
): Tensor {
  return convolutionLayer(weights.scope(name), "conv", x, outChannels, {
    padding: [2, 0, 1, 1],
    name,
    ...options,
  });
}

function normSilu(x: Tensor): Tensor {
  return rmsNorm(x, { eps: 1e-6, activation: "silu", name: "norm" });
}

function residualBlock(weights: WeightScope, x: Tensor, outChannels: number): Tensor {
  const channels = x.dim(-1);
  let residual = x;
  if (channels !== outChannels) {
    const scope = weights.scope("nin_shortcut").scope("conv");
    const weight = scope.tensor(x.graph, "weight", [outChannels, channels, 1, 1], "channels-last");
    const bias = scope.tensor(x.graph, "bias", [outChannels]);
    residual = conv2d(x, weight, { bias, name: "nin_shortcut" });
  }
  const h = causalConv(weights, "conv1", normSilu(x), outChannels);
  return causalConv(weights, "conv2", normSilu(h), outChannels, { residual });
}

function residualBlocks(
  weights: WeightScope,
  x: Tensor,
  names: readonly string[],
  outChannels: number,
): Tensor {
  let h = x;
  for (const name of names) {
    h = x.graph.scope(name, () => {
      const [folder, part] = name.split(".") as [string, string?];
      const scope = part === undefined ? weights.scope(folder) : weights.scope(folder).scope(part);
      return residualBlock(scope, h, outChannels);
    });
  }
  return h;
}

const MIDDLE = ["block_1", "block_2"];
const blocksOf = (count: number) => Array.from({ length: count }, (_, i) => `block.${i}`);

/** Packed latents, normalised, [frames, features], to mel bands, [1, 4·frames - 3, mel_bins, channels]. */
export function ltx2AudioDecoder(
  graph: Graph,
  config: Ltx2AudioVaeConfig,
  weights: WeightScope,
  packed: Tensor,
): Tensor {
  const { base_channels: base, ch_mult: multipliers, num_res_blocks: blocks } = config;
  const own = elementwise("x * spread + center", {
    x: packed,
    ...statistics(weights, graph, audioFeatures(config)),
  });
  const latents = rearrange(own, "t (c f) -> 1 t f c", { c: config.latent_channels });
  const decoder = weights.scope("decoder");
  let x = graph.scope("decoder", () => {
    const channels = base * multipliers.at(-1)!;
    const first = causalConv(decoder, "conv_in", latents, channels);
    return residualBlocks(decoder.scope("mid"), first, MIDDLE, channels);
  });
  for (let level = multipliers.length - 1; level >= 0; level--) {
    const channels = base * multipliers[level]!;
    x = graph.scope(`decoder.up.${level}`, () => {
      const scope = decoder.scope("up").scope(level);
      const h = residualBlocks(scope, x, blocksOf(blocks + 1), channels);
      if (level === 0) return h;
      // One row of zeros less before: the reference drops the first row of the result.
      const padding = [1, 0, 1, 1] as const;
      return causalConv(scope.scope("upsample"), "conv", h, channels, { upsample: 2, padding });
    });
  }
  return graph.scope(
    "decoder",
    () => causalConv(decoder, "conv_out", normSilu(x), config.output_channels),
  );
}

/** Mel bands, [1, 4·k + 1, mel_bins, channels], to the means of their latents, packed and normalised, [k + 1, features]. */
export function ltx2AudioEncoder(
  graph: Graph,
  config: Ltx2AudioVaeConfig,
  weights: WeightScope,
  mel: Tensor,
): Tensor {
  const { base_channels: base, ch_mult: multipliers, num_res_blocks: blocks } = config;
  const { latent_channels } = config;
  const encoder = weights.scope("encoder");
  let x = graph.scope("encoder", () => causalConv(encoder, "conv_in", mel, base));
  for (const [level, multiplier] of multipliers.entries()) {
    const channels = base * multiplier;
    x = graph.scope(`encoder.down.${level}`, () => {
      const scope = encoder.scope("down").scope(level);
      const h = residualBlocks(scope, x, blocksOf(blocks), channels);
      if (level === multipliers.length - 1) return h;
      return convolutionLayer(scope.scope("downsample"), "conv", h, channels, {
        stride: [2, 2],
        padding: [2, 0, 0, 1],
        name: "downsample",
      });
    });
  }
  const means = graph.scope("encoder", () => {
    const middle = residualBlocks(encoder.scope("mid"), x, MIDDLE, x.dim(-1));
    const moments = causalConv(encoder, "conv_out", normSilu(middle), 2 * latent_channels);
    return slice(moments, -1, 0, latent_channels);
  });
  return elementwise("(x - center) / spread", {
    x: rearrange(means, "1 t f c -> t (c f)"),
    ...statistics(weights, graph, audioFeatures(config)),
  });
}
