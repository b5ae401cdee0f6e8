/** Wan's autoencoder for images, as Qwen-Image, Krea 2 and Anima have it, and Qwen-Image-2.1's. */
import { type DeviceTensor, slice, type Tensor, type Weights } from "../../runtime/mod.ts";
import { type ImageCodec, tiledDecoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import type { Stream } from "../autoencoders/wan/blocks.ts";
import { FLAT_VAE_CLASS, type WanVaeConfig } from "../autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../autoencoders/wan/coder.ts";
import { FrameHistory } from "../autoencoders/wan/history.ts";
import type { Session } from "../memory/session.ts";
import { ResultDecoder, type SampleDecoder } from "./decoding.ts";
import { type TinyDecoder, tinyVideoDecoder } from "./tiny_coders.ts";
import { unscaleLatents } from "./wan_coders.ts";

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
  const stream = { ...IMAGE, isFlat: config._class_name === FLAT_VAE_CLASS };
  return {
    scale: config.scale_factor_spatial,
    latentChannels: config.z_dim,
    decode: (graph, latents) => {
      const all = wanDecoder(graph, config, weights.root, withTime(latents), stream);
      const pixels = withoutTime(all);
      return channels < config.out_channels ? slice(pixels, -1, 0, channels) : pixels;
    },
    channels: config.in_channels,
    encode: (graph, pixels) =>
      withoutTime(wanEncoder(graph, config, weights.root, withTime(pixels), stream)),
  };
}

interface WanImages {
  /** By a tiny decoder where one is given; results have `channels`. */
  by(tiny: TinyDecoder | undefined, channels?: number): SampleDecoder;
  readonly preview: SampleDecoder;
  result(
    session: Session,
    sample: DeviceTensor,
    shape: { readonly isTinyDecoded: boolean },
  ): ResultDecoder<{ readonly sample: DeviceTensor }>;
}

const RGB = 3;

/** Pixels of samples; `unpack` leads from tokens to latents, [height, width, channels], `given` to those for the caller. */
export function wanImages(
  { vae, tinyDecoder }: { readonly vae: WanVae; readonly tinyDecoder?: TinyDecoder | undefined },
  size: TiledSize,
  unpack: (tokens: Tensor) => Tensor,
  given: (tokens: Tensor) => Tensor = (tokens) => tokens,
): WanImages {
  // The autoencoder's latents are scaled, those of a tiny decoder are not.
  const by: WanImages["by"] = (tiny, channels) => ({
    decoder: tiny
      ? tinyVideoDecoder(tiny, { ...size, frames: 1 })
      : tiledDecoder(wanImageCodec(vae, channels), size),
    decoded: (tokens) => tiny ? withTime(unpack(tokens)) : unscaleLatents(vae, unpack(tokens)),
  });
  return {
    by,
    preview: by(tinyDecoder, RGB),
    result(session, sample, { isTinyDecoded }) {
      const { decoder, decoded } = by(isTinyDecoded ? tinyDecoder : undefined);
      return new ResultDecoder(
        session,
        { sample },
        decoder,
        ({ sample }) => ({ decoded: decoded(sample), latents: given(sample) }),
      );
    },
  };
}

function withTime(x: Tensor): Tensor {
  return x.reshape(1, ...x.shape);
}

function withoutTime(x: Tensor): Tensor {
  return x.reshape(...x.shape.slice(1));
}
