/** The autoencoder's programs for images of one size, in tiles where that is asked for. */
import type { Weights } from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { ImageEncoder } from "./image_encoder.ts";
import { TiledCoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import { type KlCoderConfig, scaleFactor } from "../autoencoders/kl/config.ts";
import { klDecoder, klEncoder } from "../autoencoders/kl/coder.ts";

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
