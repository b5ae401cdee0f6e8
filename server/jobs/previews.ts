/** Unfinished images on their way to whoever watches. */

import type { Image } from "../../engine/types.ts";
import { encodeOwnImage } from "../../media/isolated/images.ts";
import type { JobContext } from "./job.ts";

/** Makes files of the previews of one output, in the order in which they come. */
export class PreviewEncoder {
  readonly #output: number;
  readonly #context: JobContext;
  #last: Promise<void> = Promise.resolve();

  constructor(output: number, context: JobContext) {
    this.#output = output;
    this.#context = context;
  }

  /** Takes a preview; a preview that cannot be encoded is left out. */
  encode(image: Image, index: number): void {
    this.#last = this.#last.then(async () => {
      const { width, height, data } = image;
      const { bytes, contentType } = await encodeOwnImage({ width, height, data }, {
        format: "png",
      });
      this.#context.preview({ output: this.#output, index, bytes, contentType });
    }).catch(() => {});
  }

  /** Resolves when all previews so far have been passed on. */
  finish(): Promise<void> {
    return this.#last;
  }
}
