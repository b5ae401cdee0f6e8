/** Encoder and decoder of Wan's autoencoders. */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import {
  add,
  addDuplicateUp,
  averageDown,
  causalConv,
  downsample,
  foldPatches,
  midBlock,
  normSilu,
  pointwiseConv,
  residualBlock,
  residualBlocks,
  type Stream,
  unfoldPatches,
  upsample,
} from "./blocks.ts";
import type { WanVaeConfig } from "./config.ts";
import { requireEncoder } from "../require_encoder.ts";

/** A latent frame, [1, 1, height, width, z_dim], to pixels, [1, frames, height·s, width·s, 3]; not clamped, which would hide NaN. */
export function wanDecoder(
  graph: Graph,
  config: WanVaeConfig,
  weights: WeightScope,
  latents: Tensor,
  stream: Stream,
): Tensor {
  const decoder = weights.scope("decoder");
  const base = config.decoder_base_dim ?? config.base_dim;
  const multipliers = [config.dim_mult.at(-1)!, ...config.dim_mult.toReversed()];
  const dims = multipliers.map((multiplier) => base * multiplier);
  const temporal = config.temperal_downsample.toReversed();

  const z = pointwiseConv(stream, weights, "post_quant_conv", latents, config.z_dim);
  let x = graph.scope("decoder", () => causalConv(stream, decoder, "conv_in", z, dims[0]!));
  x = graph.scope("decoder.mid_block", () => midBlock(stream, decoder.scope("mid_block"), x));
  for (let level = 0; level < dims.length - 1; level++) {
    const outChannels = dims[level + 1]!;
    const isLast = level === dims.length - 2;
    const isTemporal = temporal[level] ?? false;
    x = graph.scope(`decoder.up_blocks.${level}`, () => {
      const block = decoder.scope("up_blocks").scope(level);
      const h = residualBlocks(stream, block, x, outChannels, config.num_res_blocks + 1);
      if (isLast) return h;
      if (!config.is_residual) {
        return upsample(stream, block.scope("upsamplers").scope(0), h, outChannels / 2, isTemporal);
      }
      const up = upsample(stream, block.scope("upsampler"), h, outChannels, isTemporal);
      return addDuplicateUp(up, x, isTemporal, stream.place);
    });
  }
  const pixels = graph.scope(
    "decoder",
    () =>
      causalConv(
        stream,
        decoder,
        "conv_out",
        normSilu(decoder, "norm_out", x),
        config.out_channels,
      ),
  );
  return config.patch_size ? unfoldPatches(pixels, config.patch_size) : pixels;
}

/** A chunk, [1, frames, height, width, 3], to moments, [1, 1, height/s, width/s, 2·z_dim]: means, then log-variances. */
export function wanEncoder(
  graph: Graph,
  config: WanVaeConfig,
  weights: WeightScope,
  frames: Tensor,
  stream: Stream,
): Tensor {
  requireEncoder(weights);
  const encoder = weights.scope("encoder");
  const dims = [1, ...config.dim_mult].map((multiplier) => config.base_dim * multiplier);
  const patches = config.patch_size ? foldPatches(frames, config.patch_size) : frames;
  let x = graph.scope("encoder", () => causalConv(stream, encoder, "conv_in", patches, dims[0]!));
  const blocks = encoder.scope("down_blocks");
  let flatIndex = 0;
  for (let level = 0; level < dims.length - 1; level++) {
    const outChannels = dims[level + 1]!;
    const isLast = level === dims.length - 2;
    const isTemporal = config.temperal_downsample[level] ?? false;
    x = graph.scope(`encoder.level.${level}`, () => {
      let h = x;
      for (let i = 0; i < config.num_res_blocks; i++) {
        const scope = config.is_residual
          ? blocks.scope(level).scope("resnets").scope(i)
          : blocks.scope(flatIndex++);
        h = graph.scope(`resnets.${i}`, () => residualBlock(stream, scope, h, outChannels));
      }
      if (!config.is_residual) {
        return isLast ? h : downsample(stream, blocks.scope(flatIndex++), h, isTemporal);
      }
      const down = isLast
        ? h
        : downsample(stream, blocks.scope(level).scope("downsampler"), h, isTemporal);
      return add(down, averageDown(x, outChannels, isTemporal, !isLast));
    });
  }
  x = graph.scope("encoder.mid_block", () => midBlock(stream, encoder.scope("mid_block"), x));
  const moments = graph.scope(
    "encoder",
    () =>
      causalConv(stream, encoder, "conv_out", normSilu(encoder, "norm_out", x), 2 * config.z_dim),
  );
  return pointwiseConv(stream, weights, "quant_conv", moments, 2 * config.z_dim);
}
