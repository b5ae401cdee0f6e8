/** Encoder and decoder of LTX-2's video autoencoder. */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import { elementwise, slice } from "../../../runtime/mod.ts";
import { requireEncoder } from "../require_encoder.ts";
import {
  convolve,
  downsample,
  foldPatches,
  normSilu,
  residualBlock,
  residualBlocks,
  unfoldPatches,
  upsample,
} from "./video_blocks.ts";
import { downLevels, type Ltx2VideoVaeConfig, upLevels } from "./video_config.ts";

/** Latents in the autoencoder's units, [1, frames, height, width, channels], to pixels, [1, (frames - 1)·t + 1, height·s, width·s, 3]; not clamped. */
export function ltx2VideoDecoder(
  graph: Graph,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const around = {
    isCausal: config.decoder_causal,
    padding: config.decoder_spatial_padding_mode,
  };
  const decoder = weights.scope("decoder");
  const { resnet_norm_eps: eps, patch_size: patch } = config;
  const first = config.decoder_block_out_channels.at(-1)!;
  let x = graph.scope("decoder", () => convolve(around, decoder, "conv_in", latents, first));
  x = graph.scope(
    "decoder.mid_block",
    () =>
      residualBlocks(
        around,
        decoder.scope("mid_block"),
        x,
        config.decoder_layers_per_block.at(-1)!,
        eps,
      ),
  );
  for (const [i, level] of upLevels(config).entries()) {
    const { blocks, channels, stride, factor } = level;
    x = graph.scope(`decoder.up_blocks.${i}`, () => {
      const block = decoder.scope("up_blocks").scope(i);
      // The way up takes as many channels as come out of it times its factor.
      const wide = stride ? channels * factor : channels;
      let h = x.dim(-1) === wide
        ? x
        : residualBlock(around, block.scope("conv_in"), x, channels, eps);
      if (stride) {
        h = upsample(around, block.scope("upsamplers").scope(0), h, { ...level, stride });
      }
      return residualBlocks(around, block, h, blocks, eps);
    });
  }
  return graph.scope(
    "decoder",
    () => unfoldPatches(convolve(around, decoder, "conv_out", normSilu(x), 3 * patch ** 2), patch),
  );
}

/** Frames, [1, k·t + 1, height·s, width·s, 3] in [-1, 1], to the means of their latents, [1, k + 1, height, width, channels]. */
export function ltx2VideoEncoder(
  graph: Graph,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  frames: Tensor,
): Tensor {
  requireEncoder(weights);
  const around = {
    isCausal: config.encoder_causal,
    padding: config.encoder_spatial_padding_mode,
  };
  const encoder = weights.scope("encoder");
  const { resnet_norm_eps: eps, latent_channels: channels } = config;
  let x = graph.scope(
    "encoder",
    () => convolve(around, encoder, "conv_in", foldPatches(frames, config.patch_size), channels),
  );
  for (const [i, { blocks, channels, stride }] of downLevels(config).entries()) {
    x = graph.scope(`encoder.down_blocks.${i}`, () => {
      const block = encoder.scope("down_blocks").scope(i);
      const h = residualBlocks(around, block, x, blocks, eps);
      return stride
        ? downsample(around, block.scope("downsamplers").scope(0), h, { channels, stride })
        : h;
    });
  }
  x = graph.scope(
    "encoder.mid_block",
    () =>
      residualBlocks(
        around,
        encoder.scope("mid_block"),
        x,
        config.layers_per_block.at(-1)!,
        eps,
      ),
  );
  return graph.scope("encoder", () => {
    // The last channel is the logarithm of the variance of all.
    const moments = convolve(around, encoder, "conv_out", normSilu(x), channels + 1);
    return slice(moments, -1, 0, channels);
  });
}

/** Normalised latents, channels last, in the autoencoder's own units. */
export function unscaleVideoLatents(
  { latent_channels, scaling_factor: factor }: Ltx2VideoVaeConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  return elementwise("x * spread / factor + center", {
    x: latents,
    ...statistics(weights, latents.graph, latent_channels),
  }, { scalars: { factor } });
}

/** Latents in the autoencoder's units, channels last, normalised for the transformer. */
export function scaleVideoLatents(
  { latent_channels, scaling_factor: factor }: Ltx2VideoVaeConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  return elementwise("(x - center) * factor / spread", {
    x: latents,
    ...statistics(weights, latents.graph, latent_channels),
  }, { scalars: { factor } });
}

/** The mean and the standard deviation of each of a coder's latent channels, which lie among its weights. */
export function statistics(
  weights: WeightScope,
  graph: Graph,
  channels: number,
): { readonly center: Tensor; readonly spread: Tensor } {
  return {
    center: weights.tensor(graph, "latents_mean", [channels]),
    spread: weights.tensor(graph, "latents_std", [channels]),
  };
}
