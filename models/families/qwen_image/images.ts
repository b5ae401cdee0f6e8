/** Pixels of Qwen-Image's samples: an image, or the layers of one. */
import {
  type DeviceTensor,
  gather,
  type InputSpec,
  slice,
  type Tensor,
  u32,
} from "../../../runtime/mod.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { type TinyDecoder, tinyVideoDecoder } from "../../pipeline/tiny_coders.ts";
import { unscaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageDecoder } from "../../pipeline/wan_image_coders.ts";
import type { Session } from "../../memory/session.ts";
import { ResultDecoder, type SampleDecoder } from "../../pipeline/decoding.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE, type QwenImageParts } from "./config.ts";
import { type ImageCounts, layerRules } from "./edit.ts";

/** Channels of previews, whatever the result has. */
const RGB = 3;

/** Makes pixels of samples, [1, images · tokens, features]. */
export class QwenImages {
  readonly #parts: QwenImageParts;
  readonly #size: TiledSize;
  readonly #grid: TokenGrid;
  readonly #counts: ImageCounts;
  readonly #isLayered: boolean;

  /** Takes the parts; nothing is traced yet. */
  constructor(parts: QwenImageParts, size: TiledSize, grid: TokenGrid, counts: ImageCounts) {
    this.#parts = parts;
    this.#size = size;
    this.#grid = grid;
    this.#counts = counts;
    this.#isLayered = layerRules(parts) !== undefined;
  }

  /** How unfinished samples are shown: by the tiny decoder, where there is one; of layers, the whole image. */
  get preview(): SampleDecoder {
    const tokens = tokenCount(this.#grid);
    return {
      ...this.#by(this.#parts.tinyDecoder, RGB),
      part: (sample) => this.#isLayered ? slice(sample, 1, 0, tokens) : sample,
    };
  }

  /** Traces the way from the last sample to the image, or to each layer. */
  result(
    session: Session,
    sample: DeviceTensor,
    { isTinyDecoded }: { readonly isTinyDecoded: boolean },
  ): ResultDecoder<
    { readonly sample: DeviceTensor; readonly image: InputSpec | undefined }
  > {
    const { sampled, results } = this.#counts;
    const { decoder, decoded } = this.#by(isTinyDecoded ? this.#parts.tinyDecoder : undefined);
    const image = this.#isLayered ? u32(1) : undefined;
    // The first image of a sample is the whole, before its layers.
    const layers = Array.from({ length: results }, (_, i) => ({ image: [i + 1] }));
    return new ResultDecoder(session, { sample, image }, decoder, ({ sample, image }) => {
      const own = image && gather(sample.reshape(sampled, -1), image);
      return {
        decoded: decoded(own?.reshape(1, tokenCount(this.#grid), -1) ?? sample),
        latents: sample,
      };
    }, this.#isLayered ? layers : undefined);
  }

  /** The autoencoder's latents are scaled, those of a tiny decoder are not. */
  #by(tiny: TinyDecoder | undefined, channels?: number): SampleDecoder {
    const { vae } = this.#parts;
    return {
      decoder: tiny
        ? tinyVideoDecoder(tiny, { ...this.#size, frames: 1 })
        : wanImageDecoder(vae, this.#size, channels),
      decoded: (tokens: Tensor) => {
        const patches = { y: this.#grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
        const latents = rearrange(tokens, "1 (y x) (c i j) -> (y i) (x j) c", patches);
        return tiny ? latents.reshape(1, ...latents.shape) : unscaleLatents(vae, latents);
      },
    };
  }
}
