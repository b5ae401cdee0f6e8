/** Pixels of Qwen-Image's samples: an image, or the layers of one. */
import { type DeviceTensor, gather, type InputSpec, slice, u32 } from "../../../runtime/mod.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { wanImages } from "../../pipeline/wan_image_coders.ts";
import type { Session } from "../../memory/session.ts";
import { ResultDecoder, type SampleDecoder } from "../../pipeline/decoding.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE, type QwenImageParts } from "./config.ts";
import { type ImageCounts, layerRules } from "./edit.ts";

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
  const isLayered = layerRules(parts) !== undefined;
  const tokens = tokenCount(grid);
  const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
  const { by, preview } = wanImages(
    parts,
    size,
    (tokens) => rearrange(tokens, "1 (y x) (c i j) -> (y i) (x j) c", patches),
  );
  return {
    preview: {
      ...preview,
      part: (sample) => isLayered ? slice(sample, 1, 0, tokens) : sample,
    },
    result(session, sample, { isTinyDecoded }) {
      const { decoder, decoded } = by(isTinyDecoded ? parts.tinyDecoder : undefined);
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
