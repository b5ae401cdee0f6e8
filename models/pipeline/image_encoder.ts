/** Input images on their way to latents, whatever the autoencoder. */
import { type DeviceTensor, writing } from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { enlargeLatents } from "./enlarged_latents.ts";
import type { GivenLatents } from "./types.ts";
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
  readonly #codec: ImageCodec;

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
    this.#codec = codec;
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
    images: readonly {
      readonly data: Uint8Array | Float32Array<ArrayBuffer>;
      readonly latents?: GivenLatents;
    }[] = work.request.images!,
  ): Promise<void> {
    for (const [i, { data, latents }] of images.entries()) {
      const coder = this.#coders[i]!;
      if (latents) {
        const given = momentsOf(latents, this.moments[i]!.shape, this.#codec);
        await work.run([writing(this.moments[i]!, given)]);
        for (let k = 0; k < coder.count; k++) work.encodeDone();
        continue;
      }
      const pixels = data instanceof Uint8Array ? toSignedRange(data) : data;
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

/** Moments whose means are given latents, enlarged. */
function momentsOf(
  { data, filter, ...given }: GivenLatents,
  [, height = 0, width = 0, depth = 0]: readonly number[],
  { scale, unscale }: ImageCodec,
): Float32Array<ArrayBuffer> {
  const [pixels, channels] = [height * width, depth / 2];
  const from = { width: given.width / scale, height: given.height / scale };
  if (!unscale || data.length !== from.width * from.height * channels) {
    throw new RangeError(
      `Cannot start from ${data.length} latents: ${channels}x${from.height}x${from.width} are needed`,
    );
  }
  const latents = enlargeLatents(data, from, { width, height }, filter);
  const moments = new Float32Array(pixels * depth);
  for (let c = 0; c < channels; c++) {
    for (let i = 0; i < pixels; i++) moments[i * depth + c] = unscale(latents[c * pixels + i]!, c);
  }
  return moments;
}
