/** Unfinished samples, shown as images while the steps go on. */
import { type Call, combine, copyTo, type DeviceTensor, f32 } from "../../runtime/mod.ts";
import type { Decoder } from "../autoencoders/tiled_coder.ts";
import type { Stage } from "../memory/session.ts";
import { splitOutputs } from "../schedulers/solver.ts";
import type { SampleDecoder } from "./decoding.ts";
import type { Weighted } from "./passes.ts";
import { toUnitRange } from "./pixels.ts";
import type { Work } from "./work.ts";

/** Makes images of unfinished samples: what each would be without its noise, x0 = x − σ·v. */
export class Previews {
  readonly #decoder: Decoder;
  readonly #denoised: Weighted;

  /**
   * Traces the decoder in the stage of the steps.
   *
   * @param outputs of the transformer, whose weighted sum is the velocity
   */
  constructor(
    stage: Stage,
    sample: DeviceTensor,
    outputs: readonly DeviceTensor[],
    { decoder: traceDecoder, part = (x) => x, decoded }: SampleDecoder,
  ) {
    const decoder = traceDecoder(stage, "preview");
    const tensors = [sample, ...outputs];
    const numbers = f32(tensors.reduce((sum, { shape }) => sum + shape[0]!, 0));
    const denoised = stage.program(
      "preview input",
      { tensors, numbers },
      ({ tensors, numbers }) =>
        copyTo(decoded(combine(splitOutputs(tensors).map(part), numbers)), decoder.input),
    );
    this.#decoder = decoder;
    this.#denoised = denoised as unknown as Weighted;
  }

  take(sigma: number, weights: readonly number[]): Call {
    return this.#denoised.call({ numbers: [1, ...weights.map((weight) => -sigma * weight)] });
  }

  /** Decodes what was taken last, and shows it as preview `index` of the request. */
  async show(work: Work, index: number): Promise<void> {
    await this.#decoder.run(work, {
      received: (_, pixels) =>
        pixels && work.control.onPreview?.(work.composed(toUnitRange(pixels)), index),
    });
  }
}

/**
 * After which steps previews are made: at even distances between the first and the last.
 *
 * @returns indices of steps, in order; fewer than asked for where there are fewer steps
 */
export function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}
