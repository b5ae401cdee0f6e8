/** From the last sample to the frames of the result. */
import {
  type Call,
  type CallValues,
  combine,
  copyTo,
  type DeviceTensor,
  f32,
  type Inputs,
  type Program,
  type Tensor,
  type Traced,
} from "../../runtime/mod.ts";
import type { Decoder } from "../autoencoders/tiled_coder.ts";
import type { Session, Stage } from "../memory/session.ts";
import { isFirst } from "../sharing/ranks.ts";
import type { Work } from "./work.ts";
import type { Schedule } from "../schedulers/mod.ts";
import { splitOutputs } from "../schedulers/solver.ts";
import { toUnitRange } from "./pixels.ts";

export interface SampleDecoder {
  decoder(stage: Stage, name: string): Decoder;
  part?(x: Tensor): Tensor;
  decoded(part: Tensor): Tensor;
}

type Values = Readonly<Record<string, ArrayLike<number>>>;

export class ResultDecoder<Own extends Inputs> {
  readonly #decoder: Decoder;
  readonly #isFirst: boolean;
  readonly #finish: Program<CallValues<Own>, { readonly latents: DeviceTensor }>;
  readonly #images: readonly Values[];

  /** `finish` gives what the decoder takes, and normalised latents for the caller, for each of `images`. */
  constructor(
    session: Session,
    inputs: Own,
    traceDecoder: (stage: Stage, name: string) => Decoder,
    finish: (inputs: Traced<Own>) => { readonly decoded: Tensor; readonly latents: Tensor },
    images: readonly Values[] = [{}],
  ) {
    const stage = session.stage("decode");
    const decoder = traceDecoder(stage, "decode");
    stage.repeats = Math.max(stage.repeats, decoder.count * images.length);
    this.#decoder = decoder;
    this.#images = images;
    this.#isFirst = isFirst(session.ranks);
    this.#finish = stage.program("finish", inputs, (inputs) => {
      const { decoded, latents } = finish(inputs);
      copyTo(decoded, decoder.input);
      return { latents };
    });
    stage.willRead(this.#finish.outputs.latents, decoder.firstResult);
  }

  /** Decodes the result, on the first of several GPUs; `keep` says which frames belong to it. */
  async run(
    work: Work,
    keep: "all" | "last" | ((pixels: Float32Array) => Float32Array) = "all",
  ): Promise<void> {
    const { count, firstResult } = this.#decoder;
    if (!this.#isFirst) return;
    const { isLatent, isAudioAlone } = work.control;
    if (isLatent || isAudioAlone) return await this.#runLatent(work);
    const total = count * this.#images.length;
    const channels = firstResult.shape.at(-1)!;
    for (const [i, own] of this.#images.entries()) {
      await this.#decoder.run(work, {
        begin: () => i === 0 && work.progress("decode", 0, total),
        first: [this.#finish.call(own as never)],
        reads: i === 0 ? [this.#finish.outputs.latents] : [],
        received: (done, pixels, [latents]) => {
          if (latents) work.takeLatents(latents);
          if (pixels && typeof keep === "function") {
            work.takeFrames(keep(pixels), "all", channels);
          } else if (pixels) {
            const kept = keep === "last" && done < count ? "none" : keep as "all" | "last";
            work.takeFrames(pixels, kept, channels);
          }
          work.progress("decode", i * count + done, total);
        },
      });
    }
  }

  async #runLatent(work: Work): Promise<void> {
    await work.run([this.#finish.call(this.#images[0] as never)], {
      reads: [this.#finish.outputs.latents],
      finished: ([latents]) => {
        work.takeLatents(latents!);
        work.progress("decode", 1, 1);
      },
    });
  }
}

/** Makes images of unfinished samples: what each would be without its noise, x0. */
interface Previews {
  take(denoised: Schedule["denoised"], sigma: number, weights: readonly number[]): Call;
  show(work: Work, index: number): Promise<void>;
}

/** Traces the decoder in the stage of the steps; the weighted sum of `outputs` is the network's. */
export function tracePreviews(
  stage: Stage,
  sample: DeviceTensor,
  outputs: readonly DeviceTensor[],
  { decoder: traceDecoder, part = (x) => x, decoded }: SampleDecoder,
): Previews {
  const decoder = traceDecoder(stage, "preview");
  const tensors = [sample, ...outputs];
  const numbers = f32(tensors.reduce((sum, { shape }) => sum + shape[0]!, 0));
  const denoised = stage.program(
    "preview input",
    { tensors, numbers },
    ({ tensors, numbers }) =>
      copyTo(decoded(combine(splitOutputs(tensors).map(part), numbers)), decoder.input),
  );
  return {
    take(estimate, sigma, weights) {
      const [kept, output] = estimate(sigma);
      return denoised.call({ numbers: [kept, ...weights.map((weight) => output * weight)] });
    },
    show: (work, index) =>
      decoder.run(work, {
        received: (_, pixels) =>
          pixels && work.control.onPreview?.(work.composed(toUnitRange(pixels)), index),
      }),
  };
}

export function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}
