/** Encoder and decoder of LTX-2's video autoencoder. */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import { elementwise, slice } from "../../../runtime/mod.ts";
import { requireEncoder } from "../require_encoder.ts";
import { foldPatches, unfoldPatches } from "../wan/blocks.ts";
import {
  convolve,
  downsample,
  normSilu,
  residualBlock,
  residualBlocks,
  type Surroundings,
  upsample,
} from "./video_blocks.ts";
import { downLevels, type Ltx2VideoVaeConfig, upLevels } from "./video_config.ts";

function decoderSurroundings(config: Ltx2VideoVaeConfig): Surroundings {
  return { isCausal: config.decoder_causal, padding: config.decoder_spatial_padding_mode };
}

function decoderLevel(
  around: Surroundings,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  i: number,
  x: Tensor,
): Tensor {
  const level = upLevels(config)[i]!;
  const { blocks, channels, stride } = level;
  const { resnet_norm_eps: eps } = config;
  return x.graph.scope(`decoder.up_blocks.${i}`, () => {
    const block = weights.scope("decoder").scope("up_blocks").scope(i);
    let h = widens(config, i) ? residualBlock(around, block.scope("conv_in"), x, channels, eps) : x;
    if (stride) h = upsample(around, block.scope("upsamplers").scope(0), h, { ...level, stride });
    return residualBlocks(around, block, h, blocks, eps);
  });
}

/** Whether a level begins with a block that changes the number of channels, which its way up else does. */
function widens(config: Ltx2VideoVaeConfig, i: number): boolean {
  const levels = upLevels(config);
  const { channels, stride, factor } = levels[i]!;
  const given = levels[i - 1]?.channels ?? config.decoder_block_out_channels.at(-1)!;
  return given !== (stride ? channels * factor : channels);
}

/** Latents in the autoencoder's units, [1, frames, height, width, channels], to what the last level of the decoder takes. */
export function ltx2DecoderHead(
  graph: Graph,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const around = decoderSurroundings(config);
  const decoder = weights.scope("decoder");
  const { resnet_norm_eps: eps, decoder_layers_per_block: layers } = config;
  const first = config.decoder_block_out_channels.at(-1)!;
  let x = graph.scope("decoder", () => convolve(around, decoder, "conv_in", latents, first));
  x = graph.scope(
    "decoder.mid_block",
    () => residualBlocks(around, decoder.scope("mid_block"), x, layers.at(-1)!, eps),
  );
  for (let i = 0; i < upLevels(config).length - 1; i++) {
    x = decoderLevel(around, config, weights, i, x);
  }
  return x;
}

/** The last level and pixels, [1, frames, height, width, 3], not clamped; of a piece those that see nothing of the next. */
export function ltx2DecoderTail(
  graph: Graph,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  features: Tensor,
  piece: Pick<Surroundings, "place" | "memory"> = {},
): Tensor {
  const around = { ...decoderSurroundings(config), ...piece };
  const decoder = weights.scope("decoder");
  const patch = config.patch_size;
  const x = decoderLevel(around, config, weights, upLevels(config).length - 1, features);
  return graph.scope(
    "decoder",
    () => unfoldPatches(convolve(around, decoder, "conv_out", normSilu(x), 3 * patch ** 2), patch),
  );
}

/** Latents in the autoencoder's units to pixels, [1, (frames - 1)·t + 1, height·s, width·s, 3]; not clamped. */
export function ltx2VideoDecoder(
  graph: Graph,
  config: Ltx2VideoVaeConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  return ltx2DecoderTail(graph, config, weights, ltx2DecoderHead(graph, config, weights, latents));
}

/** Frames that the last level of the decoder takes of so many latent frames. */
export function tailFrames(config: Ltx2VideoVaeConfig, frames: number): number {
  return upLevels(config).slice(0, -1).reduce(
    (count, { stride }) => stride ? (count - 1) * stride[0] + 1 : count,
    frames,
  );
}

/** Frames of the result of a piece that is neither the first nor the last. */
const PIECE_FRAMES = 8;

/** How many frames of its input the last level takes at a time: so many that the first piece gives a frame. */
export function tailPieces(config: Ltx2VideoVaeConfig, frames: number): number[] {
  const last = upLevels(config).length - 1;
  const { blocks, stride } = upLevels(config)[last]!;
  const doubled = stride?.[0] ?? 1;
  const lag = config.decoder_causal ? 0 : 1;
  const given = (first: number): number => {
    const before = first - lag * ((widens(config, last) ? 2 : 0) + (stride ? 1 : 0));
    return before * doubled - (doubled - 1) - lag * (2 * blocks + 1);
  };
  const length = Math.max(2, PIECE_FRAMES / doubled);
  // Every convolution sees two frames at least, and remembers them.
  let first = length;
  while (given(first) < 2) first++;
  if (frames <= first) return [frames];
  const pieces = [first];
  for (let rest = frames - first; rest > 0; rest -= length) pieces.push(Math.min(length, rest));
  return pieces;
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
