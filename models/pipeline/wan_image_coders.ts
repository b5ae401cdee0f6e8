/** Wan's autoencoder for images, as Qwen-Image has it. */
import { slice, type Tensor, type Weights } from "../../runtime/mod.ts";
import type { ImageCodec } from "../autoencoders/tiled_coder.ts";
import type { Stream } from "../autoencoders/wan/blocks.ts";
import type { WanVaeConfig } from "../autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../autoencoders/wan/coder.ts";
import { FrameHistory } from "../autoencoders/wan/history.ts";

interface WanVae {
  readonly config: WanVaeConfig;
  readonly weights: Weights;
}

const IMAGE: Stream = { place: "only", history: new FrameHistory() };

/** The autoencoder for images, whose results have 3 or 4 channels. */
export function wanImageCodec(
  { config, weights }: WanVae,
  channels = config.out_channels,
): ImageCodec {
  return {
    scale: config.scale_factor_spatial,
    latentChannels: config.z_dim,
    decode: (graph, latents) => {
      const all = wanDecoder(graph, config, weights.root, withTime(latents), IMAGE);
      const pixels = withoutTime(all);
      return channels < config.out_channels ? slice(pixels, -1, 0, channels) : pixels;
    },
    channels: config.in_channels,
    encode: (graph, pixels) =>
      withoutTime(wanEncoder(graph, config, weights.root, withTime(pixels), IMAGE)),
  };
}

function withTime(x: Tensor): Tensor {
  return x.reshape(1, ...x.shape);
}

function withoutTime(x: Tensor): Tensor {
  return x.reshape(...x.shape.slice(1));
}
