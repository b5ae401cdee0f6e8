/** The autoencoder as pipelines run it. */
import { elementwise, slice, type Tensor, type Weights } from "../../../runtime/mod.ts";
import {
  hunyuanVideo15Decoder,
  hunyuanVideo15Encoder,
} from "../../autoencoders/hunyuan_video_15/coder.ts";
import type { HunyuanVideo15VaeConfig } from "../../autoencoders/hunyuan_video_15/config.ts";
import type { VideoCodec } from "../../pipeline/video_coders.ts";

interface Vae {
  readonly config: HunyuanVideo15VaeConfig;
  readonly weights: Weights;
}

export function hunyuanVideo15Codec({ config, weights: { root } }: Vae): VideoCodec {
  const { latent_channels: channels, scaling_factor: scale } = config;
  return {
    scale: config.spatial_compression_ratio,
    temporal: config.temporal_compression_ratio,
    latentChannels: channels,
    seesFrames: true,
    decode: (graph, latents, stream) => hunyuanVideo15Decoder(graph, config, root, latents, stream),
    // The mean of what the encoder gives.
    encode: (graph, pixels, stream) => {
      const moments = hunyuanVideo15Encoder(graph, config, root, pixels, stream);
      return elementwise("x * scale", { x: slice(moments, -1, 0, channels) }, {
        scalars: { scale },
      });
    },
  };
}

/** Latents in the autoencoder's own units. */
export function unscaleLatents(
  { config: { scaling_factor: scale } }: Pick<Vae, "config">,
  x: Tensor,
): Tensor {
  return elementwise("x / scale", { x }, { scalars: { scale }, name: "latents" });
}
