/** The autoencoder's programs for images of one size, in tiles where that is asked for. */
import type { DeviceTensor, Tensor, Weights } from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { ImageEncoder } from "./image_encoder.ts";
import { TiledCoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import { type KlCoderConfig, type KlVaeConfig, scaleFactor } from "../autoencoders/kl/config.ts";
import { klDecoder, klEncoder } from "../autoencoders/kl/coder.ts";
import { unscaleLatents } from "../autoencoders/kl/posterior.ts";
import { type TinyDecoder, tinyImageCoder } from "./tiny_coders.ts";
import { rearrange } from "../rearrange.ts";
import type { Component } from "./components.ts";
import { ResultDecoder, type SampleDecoder } from "./decoding.ts";

/** An autoencoder's configuration and weights. */
interface KlVae {
  readonly config: KlCoderConfig;
  readonly weights: Weights;
}

/** Traces the way from latents in the autoencoder's units to pixels, [height·s, width·s, 3]. */
export function klImageDecoder(
  { config, weights }: KlVae,
  size: TiledSize,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...size,
      name,
      inputScale: 1,
      resultScale: scaleFactor(config),
      channels: config.latent_channels,
      trace: (graph, part) => klDecoder(graph, config, weights.root, part),
    });
}

/** Traces the way from pixels, [height·s, width·s, 3] in [-1, 1], to the moments of latents. */
export function klImageEncoder(
  { config, weights }: KlVae,
  size: TiledSize,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...size,
      name,
      inputScale: scaleFactor(config),
      resultScale: 1,
      channels: 3,
      trace: (graph, part) => klEncoder(graph, config, weights.root, part),
    });
}

/** Input images on their way to the moments of latents. */
export class KlImageEncoder extends ImageEncoder {
  /** Traces the programs in a stage of their own. */
  constructor(session: Session, vae: KlVae, sizes: readonly TiledSize[], name?: string) {
    const channels = 2 * vae.config.latent_channels;
    super(session, (size) => klImageEncoder(vae, size), sizes, channels, name);
  }
}

/** What makes pixels. */
interface KlImageParts {
  readonly vae: Component<KlVaeConfig>;
  readonly tinyDecoder?: TinyDecoder | undefined;
}

/** How pixels are made of samples. */
interface KlImages {
  /** How unfinished samples are shown: by the tiny decoder, where there is one. */
  readonly preview: SampleDecoder;
  /** Traces the way from the last sample to the result. */
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
): KlImages {
  // The autoencoder's latents are scaled, those of a tiny decoder are not.
  const by = (tiny: TinyDecoder | undefined): SampleDecoder => ({
    decoder: tiny ? tinyImageCoder(tiny, size) : klImageDecoder(vae, size),
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
