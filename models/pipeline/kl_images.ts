/** Pixels of samples, by `AutoencoderKL` or a tiny decoder. */
import type { DeviceTensor, Tensor } from "../../runtime/mod.ts";
import { klImageDecoder } from "./kl_coders.ts";
import type { KlVaeConfig } from "../autoencoders/kl/config.ts";
import { unscaleLatents } from "../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../autoencoders/tiled_coder.ts";
import { type TinyDecoder, tinyImageCoder } from "./tiny_coders.ts";
import type { Session } from "../memory/session.ts";
import { rearrange } from "../rearrange.ts";
import type { Component } from "./components.ts";
import { ResultDecoder, type SampleDecoder } from "./decoding.ts";

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

  /**
   * Takes the parts; nothing is traced yet.
   *
   * @param unpack from tokens to latents, [1, height, width, channels]
   */
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
