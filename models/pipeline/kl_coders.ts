/** The autoencoder's programs for images of one size, in tiles where that is asked for. */
import type { DeviceTensor, Tensor, Weights } from "../../runtime/mod.ts";
import type { Session } from "../memory/session.ts";
import { type ImageCodec, tiledDecoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import { type KlCoderConfig, type KlVaeConfig, scaleFactor } from "../autoencoders/kl/config.ts";
import { klDecoder, klEncoder } from "../autoencoders/kl/coder.ts";
import { type Scaling, unscaleLatents } from "../autoencoders/kl/posterior.ts";
import { tinyCodec, type TinyDecoder } from "./tiny_coders.ts";
import { rearrange } from "../rearrange.ts";
import type { Component } from "./components.ts";
import { ResultDecoder, type SampleDecoder } from "./decoding.ts";

interface KlVae {
  readonly config: KlCoderConfig & Partial<Scaling>;
  readonly weights: Weights;
}

export function klCodec({ config, weights }: KlVae): ImageCodec {
  const { scaling_factor: factor, shift_factor: shift = 0, latents_mean: means } = config;
  const { latents_std: spreads } = config;
  return {
    scale: scaleFactor(config),
    latentChannels: config.latent_channels,
    decode: (graph, latents) => klDecoder(graph, config, weights.root, latents),
    channels: 3,
    encode: (graph, pixels) => klEncoder(graph, config, weights.root, pixels),
    ...(factor !== undefined && {
      unscale: (latent: number, channel: number) =>
        latent * (spreads?.[channel] ?? 1) / factor + (means?.[channel] ?? shift),
    }),
  };
}

interface KlImageParts {
  readonly vae: Component<KlVaeConfig>;
  readonly tinyDecoder?: TinyDecoder | undefined;
}

interface KlImages {
  readonly preview: SampleDecoder;
  result(
    session: Session,
    sample: DeviceTensor,
    shape: { readonly isTinyDecoded: boolean },
  ): ResultDecoder<{ readonly sample: DeviceTensor }>;
}

/** Pixels by `AutoencoderKL` or a tiny decoder; `unpack` leads from tokens to latents, [1, height, width, channels]. */
export function klImages(
  { vae, tinyDecoder }: KlImageParts,
  size: TiledSize,
  unpack: (tokens: Tensor) => Tensor,
  exact: Pick<ImageCodec, "operands"> = {},
): KlImages {
  // The autoencoder's latents are scaled, those of a tiny decoder are not.
  const by = (tiny: TinyDecoder | undefined): SampleDecoder => ({
    decoder: tiledDecoder(tiny ? tinyCodec(tiny) : { ...klCodec(vae), ...exact }, size),
    decoded: (tokens) => tiny ? unpack(tokens) : unscaleLatents(vae.config, unpack(tokens)),
  });
  return {
    preview: by(tinyDecoder),
    result(session, sample, { isTinyDecoded }) {
      const { decoder, decoded } = by(isTinyDecoded ? tinyDecoder : undefined);
      return new ResultDecoder(session, { sample }, decoder, ({ sample }) => ({
        decoded: decoded(sample),
        latents: rearrange(unpack(sample), "1 y x c -> 1 c y x"),
      }));
    },
  };
}
