/** The noise of a video and of its sound, as the reference draws it: one after the other, of one generator. */
import { concat, elementCount, type Shape, slice, type Tensor } from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import type { TorchGenerator } from "../../schedulers/noise.ts";

export class Ltx2Noise {
  /** How many numbers a draw gives. */
  readonly size: number;
  readonly #video: Shape;
  readonly #audio: Shape;

  /**
   * Latents of the video are [1, channels, frames, height, width], those of the sound [1, channels, time, bands]; either may be
   * tokens, [1, tokens, channels].
   */
  constructor(video: Shape, audio: Shape) {
    this.#video = video;
    this.#audio = audio;
    this.size = elementCount(video) + elementCount(audio);
  }

  draw(generator: TorchGenerator): () => Float32Array {
    const [video, audio] = [elementCount(this.#video), elementCount(this.#audio)];
    return () => {
      const noise = new Float32Array(this.size);
      noise.set(generator.randn(video));
      noise.set(generator.randn(audio), video);
      return noise;
    };
  }

  /** As tokens of the video, then of the sound, [1, tokens, channels]. */
  arrange(noise: Tensor): Tensor {
    const count = elementCount(this.#video);
    const video = slice(noise, 0, 0, count).reshape(...this.#video);
    const audio = slice(noise, 0, count).reshape(...this.#audio);
    return concat([
      video.rank === 3 ? video : rearrange(video, "1 c f y x -> 1 (f y x) c"),
      audio.rank === 3 ? audio : rearrange(audio, "1 c t m -> 1 t (c m)"),
    ], 1);
  }
}
