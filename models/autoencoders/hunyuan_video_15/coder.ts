/** Encoder and decoder of HunyuanVideo 1.5's autoencoder, a latent frame at a time. */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import { requireEncoder } from "../require_encoder.ts";
import { midBlock, normSilu, residualBlocks, type Stream } from "../wan/blocks.ts";
import {
  addRepeated,
  channelMeans,
  downsample,
  edgeConv,
  HUNYUAN_VIDEO_15_LAYERS as LAYERS,
  upsample,
} from "./blocks.ts";
import { type HunyuanVideo15VaeConfig, levelSteps } from "./config.ts";

/** A latent frame, [1, 1, height, width, latent_channels], to pixels, [1, frames, height·s, width·s, 3]; not clamped. */
export function hunyuanVideo15Decoder(
  graph: Graph,
  config: HunyuanVideo15VaeConfig,
  weights: WeightScope,
  latents: Tensor,
  stream: Stream,
): Tensor {
  const decoder = weights.scope("decoder");
  const widths = config.block_out_channels.toReversed();
  let x = graph.scope(
    "decoder",
    () => addRepeated(edgeConv(stream, decoder, "conv_in", latents, widths[0]!), latents),
  );
  x = graph.scope(
    "decoder.mid_block",
    () => midBlock(stream, decoder.scope("mid_block"), x, LAYERS),
  );
  const down = Math.log2(config.spatial_compression_ratio);
  widths.forEach((width, level) => {
    x = graph.scope(`decoder.up_blocks.${level}`, () => {
      const block = decoder.scope("up_blocks").scope(level);
      const h = residualBlocks(stream, block, x, width, config.layers_per_block + 1, LAYERS);
      if (level >= down) return h;
      const temporal = level < Math.log2(config.temporal_compression_ratio);
      const scope = block.scope("upsamplers").scope(0);
      return upsample(stream, scope, h, widths[level + 1]!, temporal);
    });
  });
  return graph.scope(
    "decoder",
    () => edgeConv(stream, decoder, "conv_out", normSilu(decoder, "norm_out", x), 3),
  );
}

/** A chunk, [1, frames, height, width, 3], to moments, [1, 1, height/s, width/s, 2·latent_channels]: means, then log-variances. */
export function hunyuanVideo15Encoder(
  graph: Graph,
  config: HunyuanVideo15VaeConfig,
  weights: WeightScope,
  frames: Tensor,
  stream: Stream,
): Tensor {
  requireEncoder(weights);
  const encoder = weights.scope("encoder");
  const widths = config.block_out_channels;
  let x = graph.scope("encoder", () => edgeConv(stream, encoder, "conv_in", frames, widths[0]!));
  widths.forEach((width, level) => {
    x = graph.scope(`encoder.down_blocks.${level}`, () => {
      const block = encoder.scope("down_blocks").scope(level);
      const h = residualBlocks(stream, block, x, width, config.layers_per_block, LAYERS);
      const { spatial, temporal } = levelSteps(config, level);
      if (!spatial) return h;
      const scope = block.scope("downsamplers").scope(0);
      return downsample(stream, scope, h, widths[level + 1]!, temporal);
    });
  });
  x = graph.scope(
    "encoder.mid_block",
    () => midBlock(stream, encoder.scope("mid_block"), x, LAYERS),
  );
  const moments = 2 * config.latent_channels;
  const shortcut = channelMeans(x, moments);
  return graph.scope(
    "encoder",
    () =>
      edgeConv(stream, encoder, "conv_out", normSilu(encoder, "norm_out", x), moments, shortcut),
  );
}
