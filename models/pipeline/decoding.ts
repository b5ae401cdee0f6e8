/** From the last sample to the frames of the result. */
import {
  type Call,
  copyTo,
  type DeviceTensor,
  type Inputs,
  type Program,
  type Tensor,
  type Traced,
} from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
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
  /** What the first piece gives. */
  readonly firstResult: DeviceTensor;
  /** Decodes what `input` holds. */
  run(work: Pick<Work, "run">, options: DecodeOptions): Promise<void>;
}

/** The end of a request: the final latents, and the pixels that the autoencoder makes of them. */
export class ResultDecoder<Own extends Inputs> {
  readonly #decoder: Decoder;
  readonly #finish: Program<Own, { readonly latents: Tensor }>;

  /**
   * Traces the decoder in a stage of its own.
   *
   * @param inputs such as the last sample
   * @param finish gives what the decoder takes, and the normalised latents for the caller, [1, channels, ...]
   */
  constructor(
    session: Session,
    inputs: Own,
    traceDecoder: (stage: Stage, name: string) => Decoder,
    finish: (inputs: Traced<Own>) => { readonly decoded: Tensor; readonly latents: Tensor },
  ) {
    const stage = session.stage("decode");
    const decoder = traceDecoder(stage, "decode");
    this.#decoder = decoder;
    this.#finish = stage.program("finish", inputs, (inputs) => {
      const { decoded, latents } = finish(inputs);
      copyTo(decoded, decoder.input);
      return { latents };
    });
    stage.willRead(this.#finish.outputs.latents, decoder.firstResult);
  }

  /**
   * Decodes the result of a request.
   *
   * @param keep which frames belong to it
   * @throws {Error} when latents or pixels are not finite
   */
  async run(work: Work, keep: "all" | "last" = "all"): Promise<void> {
    const { count } = this.#decoder;
    await this.#decoder.run(work, {
      begin: () => work.progress("decode", 0, count),
      first: [this.#finish.call({} as never)],
      reads: [this.#finish.outputs.latents],
      received: (done, pixels, [latents]) => {
        if (latents) work.takeLatents(latents);
        if (pixels) work.takeFrames(pixels, keep === "all" || done === count ? keep : "none");
        work.progress("decode", done, count);
      },
    });
  }
}
