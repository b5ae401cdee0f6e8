/** Input images on their way to latents, whatever the autoencoder. */
import { type DeviceTensor, writing } from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { toSignedRange } from "./pixels.ts";
import type { Work } from "./work.ts";
import {
  type ImageCodec,
  type TiledCoder,
  tiledEncoder,
  type TiledSize,
} from "../autoencoders/tiled_coder.ts";

export class ImageEncoder {
  /** Moments of every image, [1, height, width, 2·channels]: means, then log-variances. */
  readonly moments: readonly DeviceTensor[];
  readonly stage: Stage;
  readonly #coders: readonly TiledCoder[];

  /** Traces the programs, from pixels, [height·s, width·s, 3] in [-1, 1], to moments, in a stage of their own. */
  constructor(
    session: Session,
    codec: ImageCodec,
    sizes: readonly TiledSize[],
    name = "encode",
  ) {
    const stage = session.stage("encode", { name });
    const known = new Map<string, TiledCoder>();
    this.stage = stage;
    this.#coders = sizes.map((size) => {
      const name = `encode ${size.width}x${size.height}`;
      const coder = known.get(name) ?? tiledEncoder(codec, size)(stage, name);
      known.set(name, coder);
      session.encodeSteps += coder.count;
      return coder;
    });
    this.moments = sizes.map(({ height, width }, i) =>
      session.tensor(`${name} moments ${i}`, [1, height, width, 2 * codec.latentChannels])
    );
  }

  /** Encodes images of the sizes that were traced, bytes or pixels in [-1, 1]; those of the request by default. */
  async run(
    work: Work,
    images: readonly { readonly data: Uint8Array | Float32Array<ArrayBuffer> }[] = work.request
      .images!,
  ): Promise<void> {
    for (const [i, { data }] of images.entries()) {
      const pixels = data instanceof Uint8Array ? toSignedRange(data) : data;
      const coder = this.#coders[i]!;
      let moments: Float32Array;
      await coder.run(work, {
        first: [writing(coder.input, pixels)],
        received: (_, result) => {
          if (result) moments = result;
          work.encodeDone();
        },
      });
      // Tiles are put together on this side.
      await work.finish();
      await work.run([writing(this.moments[i]!, moments!)]);
    }
  }
}
