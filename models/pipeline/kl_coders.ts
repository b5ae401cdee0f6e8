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
      ...{ ...size, name, inputScale: 1, resultScale: scaleFactor(config) },
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
      ...{ ...size, name, inputScale: scaleFactor(config), resultScale: 1 },
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

/** Makes pixels of samples by `AutoencoderKL` or a tiny decoder. */
export class KlImages {
  readonly #parts: KlImageParts;
  readonly #size: TiledSize;
  readonly #unpack: (tokens: Tensor) => Tensor;

  /** Nothing is traced yet; `unpack` leads from tokens to latents, [1, height, width, channels]. */
  constructor(parts: KlImageParts, size: TiledSize, unpack: (tokens: Tensor) => Tensor) {
    this.#parts = parts;
    this.#size = size;
    this.#unpack = unpack;
  }

  /** How unfinished samples are shown: by the tiny decoder, where there is one. */
  get preview(): SampleDecoder {
    return this.#by(this.#parts.tinyDecoder);
  }

  /** Traces the way from the last sample to the result. */
  result(
    session: Session,
    sample: DeviceTensor,
    { isTinyDecoded }: { readonly isTinyDecoded: boolean },
  ): ResultDecoder<{ readonly sample: DeviceTensor }> {
    const { decoder, decoded } = this.#by(isTinyDecoded ? this.#parts.tinyDecoder : undefined);
    return new ResultDecoder(session, { sample }, decoder, ({ sample }) => ({
      decoded: decoded(sample),
      latents: rearrange(this.#unpack(sample), "1 y x c -> 1 c y x"),
    }));
  }

  /** The autoencoder's latents are scaled, those of a tiny decoder are not. */
  #by(tiny: TinyDecoder | undefined): SampleDecoder {
    const { vae } = this.#parts;
    return {
      decoder: tiny ? tinyImageCoder(tiny, this.#size) : klImageDecoder(vae, this.#size),
      decoded: (tokens) => {
        const latents = this.#unpack(tokens);
        return tiny ? latents : unscaleLatents(vae.config, latents);
      },
    };
  }
}
