/** From the last sample to the frames of the result. */
import type { Call, DeviceTensor } from "../../runtime/mod.ts";
import type { Work } from "./work.ts";

/** How a decoder runs. */
export interface DecodeOptions {
  /** What runs right before the first piece. */
  readonly first?: readonly Call[];
  /** Read back together with the first piece. */
  readonly reads?: readonly DeviceTensor[];
  /** Told right before the first piece. */
  readonly begin?: () => void;
  /**
   * Told after every piece.
   *
   * @param done how many pieces are done
   * @param pixels those that are complete, [frames, height, width, 3]; none after a piece that completes no frame
   * @param contents of `reads`, after the first piece
   */
  readonly received: (
    done: number,
    pixels: Float32Array | undefined,
    contents: readonly Float32Array[],
  ) => void;
}

/** An autoencoder's way back to pixels, piece by piece: tiles of an image, or frames of a video. */
export interface Decoder {
  /** Latents in the autoencoder's own units. */
  readonly input: DeviceTensor;
  /** How many pieces there are. */
  readonly count: number;
  /** Decodes what `input` holds. */
  run(work: Pick<Work, "run">, options: DecodeOptions): Promise<void>;
}

/**
 * Decodes the result of a request.
 *
 * @param finish writes the decoder's input and `latents`, the normalised latents for the caller
 * @param keep which frames belong to the result
 * @throws {Error} when latents or pixels are not finite
 */
export async function decodeResult(
  work: Work,
  decoder: Decoder,
  finish: Call,
  latents: DeviceTensor,
  keep: "all" | "last" = "all",
): Promise<void> {
  await decoder.run(work, {
    begin: () => work.progress("decode", 0, decoder.count),
    first: [finish],
    reads: [latents],
    received: (done, pixels, [values]) => {
      if (values) work.takeLatents(values);
      const isLast = done === decoder.count;
      if (pixels) work.takeFrames(pixels, keep === "all" || isLast ? keep : "none");
      work.progress("decode", done, decoder.count);
    },
  });
}
