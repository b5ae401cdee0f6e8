/** Encoder and decoder of the image autoencoders. */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import { convolutionLayer, linearLayer } from "../../blocks/layers.ts";
import { midBlock, normOf, residualBlocks } from "./blocks.ts";
import type { KlCoderConfig } from "./config.ts";
import { requireEncoder } from "../require_encoder.ts";

/** Latents, [1, height, width, latent_channels], to pixels, [1, height·s, width·s, 3]; not clamped, which would hide NaN. */
export function klDecoder(
  graph: Graph,
  config: KlCoderConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const decoder = weights.scope("decoder");
  const channels = (config.decoder_block_out_channels ?? config.block_out_channels).toReversed();
  const z = config.use_post_quant_conv
    ? linearLayer(weights, "post_quant_conv", latents, config.latent_channels)
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

/** Pixels, [1, height, width, 3], to moments, [1, height/s, width/s, 2·latent_channels]: means, then log-variances. */
export function klEncoder(
  graph: Graph,
  config: KlCoderConfig,
  weights: WeightScope,
  pixels: Tensor,
): Tensor {
  requireEncoder(weights);
  const encoder = weights.scope("encoder");
  const channels = config.block_out_channels;
  let x = graph.scope("encoder", () => convolutionLayer(encoder, "conv_in", pixels, channels[0]!));
  channels.forEach((outChannels, level) => {
    const block = encoder.scope("down_blocks").scope(level);
    x = graph.scope(`encoder.down_blocks.${level}`, () => {
      const h = residualBlocks(config, block, x, outChannels, config.layers_per_block);
      if (level === channels.length - 1) return h;
      return convolutionLayer(block, "downsamplers.0.conv", h, outChannels, {
        stride: [2, 2],
        padding: [0, 1, 0, 1],
      });
    });
  });
  x = graph.scope("encoder.mid_block", () => midBlock(config, encoder.scope("mid_block"), x));
  const count = 2 * config.latent_channels;
  const moments = graph.scope(
    "encoder",
    () =>
      convolutionLayer(encoder, "conv_out", x, count, {
        norm: normOf(config, encoder, "conv_norm_out", x),
      }),
  );
  return config.use_quant_conv ? linearLayer(weights, "quant_conv", moments, count) : moments;
}
