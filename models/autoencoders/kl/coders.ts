/** The autoencoder's programs for images of one size, in tiles where that is asked for. */
import { type Weights, writing } from "../../../runtime/mod.ts";
import type { Stage } from "../../memory/session.ts";
import { toSignedRange } from "../../pipeline/pixels.ts";
import type { InputImage } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { TiledCoder, type TiledSize } from "../tiled_coder.ts";
import { type KlCoderConfig, scaleFactor } from "./config.ts";
import { klDecoder } from "./decoder.ts";
import { klEncoder } from "./encoder.ts";

/** An autoencoder's configuration and weights. */
export interface KlVae {
  readonly config: KlCoderConfig;
  readonly weights: Weights;
}

/** From latents in the autoencoder's units to pixels, [height·s, width·s, 3]. */
export function klImageDecoder(
  stage: Stage,
  { config, weights }: KlVae,
  size: TiledSize,
  name = "decode",
): TiledCoder {
  return new TiledCoder(stage, {
    ...{ ...size, name, inputScale: 1, resultScale: scaleFactor(config) },
    channels: config.latent_channels,
    trace: (graph, part) => klDecoder(graph, config, weights.root, part),
  });
}

/** From pixels, [height·s, width·s, 3] in [-1, 1], to the moments of latents. */
export function klImageEncoder(
  stage: Stage,
  { config, weights }: KlVae,
  size: TiledSize,
  name = "encode",
): TiledCoder {
  return new TiledCoder(stage, {
    ...{ ...size, name, inputScale: scaleFactor(config), resultScale: 1 },
    channels: 3,
    trace: (graph, part) => klEncoder(graph, config, weights.root, part),
  });
}

/**
 * Encodes an input image.
 *
 * @returns its moments, [height, width, 2·channels]
 */
export async function encodeImage(
  work: Work,
  encoder: TiledCoder,
  { data }: InputImage,
): Promise<Float32Array> {
  let moments: Float32Array | undefined;
  await encoder.run(work, {
    first: [writing(encoder.input, toSignedRange(data))],
    received: (_, result) => {
      moments = result;
      work.encodeDone();
    },
  });
  // Tiles are put together on this side.
  await work.finish();
  return moments!;
}
