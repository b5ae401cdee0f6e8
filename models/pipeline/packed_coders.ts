/** Images as FLUX.2's autoencoder has them: tokens of 2 x 2 latents, normalised. */
import { concat, type DeviceTensor, type Weights } from "../../runtime/mod.ts";
import type { Flux2VaeConfig, KlCoderConfig } from "../autoencoders/kl/config.ts";
import {
  denormaliseTokens,
  normaliseTokens,
  packLatents,
  unpackLatents,
} from "../autoencoders/kl/packing.ts";
import { posteriorMode } from "../autoencoders/kl/posterior.ts";
import { tiledDecoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import type { Session } from "../memory/session.ts";
import { rearrange } from "../rearrange.ts";
import { ResultDecoder, type SampleDecoder } from "./decoding.ts";
import { ImageEncoder } from "./image_encoder.ts";
import { klCodec } from "./kl_coders.ts";
import type { Work } from "./work.ts";

interface PackedVae {
  readonly config: Flux2VaeConfig & KlCoderConfig;
  readonly weights: Weights;
}

interface GivenImages {
  /** Those of all images one after the other, [1, tokens, channels]; absent without images. */
  readonly tokens: DeviceTensor | undefined;
  run(work: Work): Promise<void>;
}

/** The tokens of a request's images, of sizes in latents. */
export function packedImages(
  session: Session,
  vae: PackedVae,
  sizes: readonly TiledSize[],
): GivenImages {
  if (sizes.length === 0) return { tokens: undefined, run: () => Promise.resolve() };
  const encoder = new ImageEncoder(session, klCodec(vae), sizes);
  const program = encoder.stage.program("tokens", { all: encoder.moments }, ({ all }) => {
    const packed = all.map((moments) => packLatents(posteriorMode(moments)));
    return normaliseTokens(vae.config, vae.weights.root, concat(packed, 1));
  });
  return {
    tokens: program.outputs,
    async run(work) {
      await encoder.run(work);
      await work.run([program.call({})]);
    },
  };
}

/** From tokens of a grid of `rows` to pixels. */
export function packedDecoder(vae: PackedVae, size: TiledSize, rows: number): SampleDecoder {
  return {
    decoder: tiledDecoder(klCodec(vae), size),
    decoded: (tokens) =>
      unpackLatents(denormaliseTokens(vae.config, vae.weights.root, tokens), rows),
  };
}

/** Decodes the result; its latents for the caller are the tokens in their grid, [1, channels, rows, columns]. */
export function tokenResult(
  session: Session,
  sample: DeviceTensor,
  { decoder, decoded }: SampleDecoder,
  rows: number,
): ResultDecoder<{ readonly sample: DeviceTensor }> {
  return new ResultDecoder(session, { sample }, decoder, ({ sample }) => ({
    decoded: decoded(sample),
    latents: rearrange(sample, "1 (y x) c -> 1 c y x", { y: rows }),
  }));
}
