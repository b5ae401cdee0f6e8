/** The autoencoder's programs for images of one size, in tiles where that is asked for. */
import { type DeviceTensor, type Weights, writing } from "../../../runtime/mod.ts";
import type { Session, Stage } from "../../memory/session.ts";
import { toSignedRange } from "../../pipeline/pixels.ts";
import type { Work } from "../../pipeline/work.ts";
import { TiledCoder, type TiledSize } from "../tiled_coder.ts";
import { type KlCoderConfig, scaleFactor } from "./config.ts";
import { klDecoder } from "./decoder.ts";
import { klEncoder } from "./encoder.ts";

/** An autoencoder's configuration and weights. */
interface KlVae {
  readonly config: KlCoderConfig;
  readonly weights: Weights;
}

/** Traces the way from latents in the autoencoder's units to pixels, [height·s, width·s, 3]. */
export function klImageDecoder(
  { config, weights }: KlVae,
  size: TiledSize,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...{ ...size, name, inputScale: 1, resultScale: scaleFactor(config) },
      channels: config.latent_channels,
      trace: (graph, part) => klDecoder(graph, config, weights.root, part),
    });
}

/** Traces the way from pixels, [height·s, width·s, 3] in [-1, 1], to the moments of latents. */
export function klImageEncoder(
  { config, weights }: KlVae,
  size: TiledSize,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...{ ...size, name, inputScale: scaleFactor(config), resultScale: 1 },
      channels: 3,
      trace: (graph, part) => klEncoder(graph, config, weights.root, part),
    });
}

/** Input images on their way to latents; those of one size share their programs. */
export class KlImageEncoder {
  /** Of every image, [1, height, width, 2·channels]: means, then log-variances. */
  readonly moments: readonly DeviceTensor[];
  /** In which the programs are traced. */
  readonly stage: Stage;
  readonly #coders: readonly TiledCoder[];

  /** Traces the programs in a stage of their own. */
  constructor(session: Session, vae: KlVae, sizes: readonly TiledSize[]) {
    const stage = session.stage("encode");
    const known = new Map<string, TiledCoder>();
    this.stage = stage;
    this.#coders = sizes.map((size) => {
      const name = `encode ${size.width}x${size.height}`;
      const coder = known.get(name) ?? klImageEncoder(vae, size)(stage, name);
      known.set(name, coder);
      session.encodeSteps += coder.count;
      return coder;
    });
    this.moments = sizes.map(({ height, width }, i) =>
      session.tensor(`moments ${i}`, [1, height, width, 2 * vae.config.latent_channels])
    );
  }

  /** Encodes the input images of a request. */
  async run(work: Work): Promise<void> {
    for (const [i, { data }] of work.request.images!.entries()) {
      const coder = this.#coders[i]!;
      let moments: Float32Array;
      await coder.run(work, {
        first: [writing(coder.input, toSignedRange(data))],
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
