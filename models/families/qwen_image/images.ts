/** Pixels of Qwen-Image's samples: an image, or the layers of one. */
import { type DeviceTensor, gather, type InputSpec, slice, u32 } from "../../../runtime/mod.ts";
import { tiledDecoder, type TiledSize } from "../../autoencoders/tiled_coder.ts";
import { type TinyDecoder, tinyVideoDecoder } from "../../pipeline/tiny_coders.ts";
import { unscaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import type { Session } from "../../memory/session.ts";
import { ResultDecoder, type SampleDecoder } from "../../pipeline/decoding.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE, type QwenImageParts } from "./config.ts";
import { type ImageCounts, layerRules } from "./edit.ts";

const RGB = 3;

/** How pixels are made of samples, [1, images · tokens, features]. */
interface QwenImages {
  readonly preview: SampleDecoder;
  result(
    session: Session,
    sample: DeviceTensor,
    shape: { readonly isTinyDecoded: boolean },
  ): ResultDecoder<{ readonly sample: DeviceTensor; readonly image: InputSpec | undefined }>;
}

export function qwenImages(
  parts: QwenImageParts,
  size: TiledSize,
  grid: TokenGrid,
  { sampled, results }: ImageCounts,
): QwenImages {
  const { vae, tinyDecoder } = parts;
  const isLayered = layerRules(parts) !== undefined;
  const tokens = tokenCount(grid);
  // The autoencoder's latents are scaled, those of a tiny decoder are not.
  const by = (tiny: TinyDecoder | undefined, channels?: number): SampleDecoder => ({
    decoder: tiny
      ? tinyVideoDecoder(tiny, { ...size, frames: 1 })
      : tiledDecoder(wanImageCodec(vae, channels), size),
    decoded: (tokens) => {
      const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
      const latents = rearrange(tokens, "1 (y x) (c i j) -> (y i) (x j) c", patches);
      return tiny ? latents.reshape(1, ...latents.shape) : unscaleLatents(vae, latents);
    },
  });
  return {
    preview: {
      ...by(tinyDecoder, RGB),
      part: (sample) => isLayered ? slice(sample, 1, 0, tokens) : sample,
    },
    result(session, sample, { isTinyDecoded }) {
      const { decoder, decoded } = by(isTinyDecoded ? tinyDecoder : undefined);
      const image = isLayered ? u32(1) : undefined;
      // The first image of a sample is the whole, before its layers.
      const layers = Array.from({ length: results }, (_, i) => ({ image: [i + 1] }));
      return new ResultDecoder(session, { sample, image }, decoder, ({ sample, image }) => {
        const own = image && gather(sample.reshape(sampled, -1), image);
        return { decoded: decoded(own?.reshape(1, tokens, -1) ?? sample), latents: sample };
      }, isLayered ? layers : undefined);
    },
  };
}
