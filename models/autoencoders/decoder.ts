/** What decoders have in common, whatever they decode. */
import type { Call, DeviceTensor } from "../../runtime/mod.ts";
import type { StageQueue } from "../memory/session_runner.ts";

export interface DecodeOptions {
  /** What runs right before the first piece. */
  readonly first?: readonly Call[];
  /** Read back together with the first piece. */
  readonly reads?: readonly DeviceTensor[];
  /** Told right before the first piece. */
  readonly begin?: () => unknown;
  /**
   * Told after every piece.
   *
   * @param pixels those that are complete, [frames, height, width, 3 or 4]; none after a piece that completes no frame
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
  /** What the first piece gives. */
  readonly firstResult: DeviceTensor;
  /** Decodes what `input` holds. */
  run(work: Pick<StageQueue, "run">, options: DecodeOptions): Promise<void>;
}
