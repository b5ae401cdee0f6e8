import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import {
  add,
  averageDown,
  causalConv,
  downsample,
  foldPatches,
  midBlock,
  normSilu,
  pointwiseConv,
  residualBlock,
  type Stream,
} from "./blocks.ts";
import type { WanVaeConfig } from "./config.ts";
import { requireEncoder } from "../require_encoder.ts";

/**
 * Encodes a chunk of frames: one for the first chunk of a video, then `scale_factor_temporal` for each.
 *
 * @param frames [1, frames, height, width, 3] in [-1, 1]
 * @returns moments [1, 1, height/s, width/s, 2·z_dim]: means, then log-variances (not clamped)
 */
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
  return pointwiseConv(weights, "quant_conv", moments, 2 * config.z_dim);
}
