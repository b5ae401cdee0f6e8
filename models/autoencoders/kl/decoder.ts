import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import { convolutionLayer } from "../../blocks/layers.ts";
import { midBlock, normOf, pointwiseConvolution, residualBlocks } from "./blocks.ts";
import type { KlCoderConfig } from "./config.ts";

/**
 * Decodes latents to pixels.
 *
 * @param latents [1, height, width, latent_channels], in the autoencoder's own units
 * @returns [1, height·s, width·s, 3], to be clamped to [-1, 1]. Clamping is left to the reader because it would hide NaN
 */
export function klDecoder(
  graph: Graph,
  config: KlCoderConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const decoder = weights.scope("decoder");
  const channels = (config.decoder_block_out_channels ?? config.block_out_channels).toReversed();
  const z = config.use_post_quant_conv
    ? pointwiseConvolution(weights, "post_quant_conv", latents, config.latent_channels)
    : latents;
  let x = graph.scope("decoder", () => convolutionLayer(decoder, "conv_in", z, channels[0]!));
  x = graph.scope("decoder.mid_block", () => midBlock(config, decoder.scope("mid_block"), x));
  channels.forEach((outChannels, level) => {
    const block = decoder.scope("up_blocks").scope(level);
    x = graph.scope(`decoder.up_blocks.${level}`, () => {
      const h = residualBlocks(config, block, x, outChannels, config.layers_per_block + 1);
      if (level === channels.length - 1) return h;
      return convolutionLayer(block, "upsamplers.0.conv", h, outChannels, { upsample: 2 });
    });
  });
  return graph.scope(
    "decoder",
    () =>
      convolutionLayer(decoder, "conv_out", x, config.out_channels, {
        norm: normOf(config, decoder, "conv_norm_out", x),
      }),
  );
}
