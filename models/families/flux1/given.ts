/** What FLUX.1 makes of an input image: where it starts from, and what Kontext, Fill, Canny and Depth see beside it. */
import { type DeviceTensor, f32, type InputSpec, type Tensor } from "../../../runtime/mod.ts";
import { KlImageEncoder } from "../../autoencoders/kl/coders.ts";
import { type KlVaeConfig, scaleFactor } from "../../autoencoders/kl/config.ts";
import { packLatents } from "../../autoencoders/kl/packing.ts";
import { posteriorMode, posteriorSample, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import { controlPicture } from "../../pipeline/control.ts";
import type { Component } from "../../pipeline/components.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { fillConditions, fillInputs } from "./fill.ts";

/** What is given. */
interface GivenOptions {
  /** Latents of the result, [1, channels, rows, columns]. */
  readonly latents: readonly number[];
  /** Of the image that is noised, or that Kontext sees; nothing where there is none. */
  readonly size: TiledSize | undefined;
  /** Whether it is noised, by a draw from its moments. */
  readonly isDrawn: boolean;
  /** Size of the image that Fill sees without what is painted. */
  readonly fillSize: TiledSize | undefined;
  /** Size of the picture after which Canny and Depth draw. */
  readonly pictureSize?: TiledSize | undefined;
}

/** What the program `begin` takes of it. */
interface GivenInputs {
  readonly moments: DeviceTensor | undefined;
  readonly momentNoise: InputSpec | undefined;
  readonly filled: DeviceTensor | undefined;
  readonly fillNoise: InputSpec | undefined;
  readonly mask: InputSpec | undefined;
}

/** Noise of a request. */
interface DrawnNoise {
  readonly noise: Float32Array;
  readonly momentNoise: Float32Array | undefined;
  readonly fillNoise: Float32Array | undefined;
}

/** See the file comment. */
export class GivenImage {
  readonly inputs: GivenInputs;
  readonly #vae: Component<KlVaeConfig>;
  readonly #options: GivenOptions;
  readonly #encoder: KlImageEncoder | undefined;

  /** Traces the encoder where there is something to encode. */
  constructor(session: Session, vae: Component<KlVaeConfig>, options: GivenOptions) {
    const { latents, size, isDrawn, fillSize, pictureSize } = options;
    const sizes = [size, fillSize, pictureSize].filter((one) => one !== undefined);
    const encoder = sizes.length > 0 ? new KlImageEncoder(session, vae, sizes) : undefined;
    const scale = scaleFactor(vae.config);
    const noise = () => f32(...latents);
    this.#vae = vae;
    this.#options = options;
    this.#encoder = encoder;
    this.inputs = {
      moments: size && encoder?.moments[0],
      momentNoise: isDrawn ? noise() : undefined,
      filled: fillSize || pictureSize ? encoder?.moments.at(-1) : undefined,
      fillNoise: fillSize || pictureSize ? noise() : undefined,
      mask: fillSize && f32(fillSize.height * scale, fillSize.width * scale),
    };
  }

  /** The image as tokens, and what Fill, Canny and Depth see beside each token of the sample. */
  trace(
    { moments, momentNoise, filled, fillNoise, mask }: {
      readonly [Name in keyof GivenInputs]: Tensor | undefined;
    },
  ): { readonly image: Tensor | undefined; readonly conditions: Tensor | undefined } {
    const { config } = this.#vae;
    const tokens = (moments: Tensor, noise: Tensor | undefined) => {
      const latents = noise
        ? posteriorSample(moments, rearrange(noise, "1 c y x -> 1 y x c"))
        : posteriorMode(moments);
      return packLatents(scaleLatents(config, latents));
    };
    return {
      image: moments && tokens(moments, momentNoise),
      conditions: filled && mask
        ? fillConditions(tokens(filled, fillNoise), mask, scaleFactor(config))
        : filled && tokens(filled, fillNoise),
    };
  }

  /** Noise in the order of the reference, which draws for an image even where Fill has no use for it. */
  draw(draw: () => Float32Array): DrawnNoise {
    const { isDrawn, fillSize, pictureSize } = this.#options;
    if (pictureSize) return { fillNoise: draw(), noise: draw(), momentNoise: undefined };
    const first = isDrawn || fillSize ? draw() : undefined;
    const noise = draw();
    return { noise, momentNoise: isDrawn ? first : undefined, fillNoise: fillSize && draw() };
  }

  /** Encodes the image of a request. */
  async run(work: Work): Promise<{ readonly mask: Float32Array | undefined }> {
    if (this.#options.pictureSize) {
      const { request } = work;
      const [picture] = request.images!;
      await this.#encoder!.run(work, [controlPicture(picture!, request)]);
      return { mask: undefined };
    }
    if (!this.#options.fillSize) {
      await this.#encoder?.run(work);
      return { mask: undefined };
    }
    const { whole, pixels, mask } = fillInputs(work.request);
    const images = [...this.#options.size ? [whole] : [], pixels];
    await this.#encoder!.run(work, images.map((data) => ({ data })));
    return { mask };
  }
}
