/** Which decoder makes the frames of a video. */
import type { Tensor } from "../../runtime/mod.ts";
import type { Decoder } from "../autoencoders/tiled_coder.ts";
import type { Stage } from "../memory/session.ts";
import { type TinyDecoder, tinyVideoDecoder } from "./tiny_coders.ts";
import { type VideoCodec, videoDecoder, type VideoSize } from "./video_coders.ts";

/** From normalised latents to frames, by a tiny decoder or the autoencoder. */
export interface FramesDecoder {
  readonly decoder: (stage: Stage, name: string) => Decoder;
  /** What the decoder takes of normalised latents, which tiny decoders take as they are. */
  readonly scaled: (latents: Tensor) => Tensor;
}

/** Traces the way from normalised latents to frames, by the tiny decoder if there is one; `unscaled` gives the autoencoder's units. */
export function framesDecoder(
  tinyDecoder: TinyDecoder | undefined,
  codec: VideoCodec,
  size: VideoSize,
  unscaled: (latents: Tensor) => Tensor,
): FramesDecoder {
  return tinyDecoder
    ? { decoder: tinyVideoDecoder(tinyDecoder, size), scaled: (x) => x }
    : { decoder: videoDecoder(codec, size), scaled: unscaled };
}
