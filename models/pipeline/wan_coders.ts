/** Wan's autoencoder for videos, and its tiny decoder. */
import { elementwise, type Graph, slice, type Tensor, type Weights } from "../../runtime/mod.ts";
import { type FramesDecoder, framesDecoder } from "./frames_decoder.ts";
import type { TinyDecoder } from "./tiny_coders.ts";
import type { WanVaeConfig } from "../autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../autoencoders/wan/coder.ts";
import type { VideoCodec, VideoSize } from "./video_coders.ts";

interface WanVae {
  readonly config: WanVaeConfig;
  readonly weights: Weights;
}

/** Latents, channels last, in the transformer's units: normalised. */
export function scaleLatents({ config }: Pick<WanVae, "config">, latents: Tensor): Tensor {
  return elementwise("(m - center) / spread", {
    m: latents,
    ...latentScale(latents.graph, config),
  });
}

/** Normalised latents, channels last, in the autoencoder's own units. */
export function unscaleLatents({ config }: Pick<WanVae, "config">, latents: Tensor): Tensor {
  const x = latents;
  return elementwise("x * spread + center", { x, ...latentScale(x.graph, config) });
}

function latentScale(
  graph: Graph,
  { z_dim, latents_mean, latents_std }: WanVaeConfig,
): { center: Tensor; spread: Tensor } {
  return {
    center: graph.constant("latents mean", [z_dim], "f32", latents_mean),
    spread: graph.constant("latents std", [z_dim], "f32", latents_std),
  };
}

/** Wan's autoencoder for videos. */
export function wanVideoCodec({ config, weights }: WanVae): VideoCodec {
  return {
    scale: config.scale_factor_spatial,
    temporal: config.scale_factor_temporal,
    latentChannels: config.z_dim,
    decode: (graph, latents, stream) => wanDecoder(graph, config, weights.root, latents, stream),
    // The mean of what the encoder gives.
    encode: (graph, pixels, stream) => {
      const moments = wanEncoder(graph, config, weights.root, pixels, stream);
      return scaleLatents({ config }, slice(moments, -1, 0, config.z_dim));
    },
  };
}

/** Traces the way from normalised latents to frames, by the tiny decoder if there is one and it is wanted. */
export function wanFrames(
  { vae, tinyDecoder }: { readonly vae: WanVae; readonly tinyDecoder?: TinyDecoder | undefined },
  size: VideoSize,
  isTiny = true,
): FramesDecoder {
  const tiny = isTiny ? tinyDecoder : undefined;
  return framesDecoder(tiny, wanVideoCodec(vae), size, (x) => unscaleLatents(vae, x));
}
