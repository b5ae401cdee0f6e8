/** What Stable Diffusion makes of an input image: where it starts from, and what an inpainting UNet sees beside. */
import {
  concat,
  type DeviceTensor,
  f32,
  type InputSpec,
  type Tensor,
} from "../../../runtime/mod.ts";
import { posteriorLatents, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import type { ImageCodec, TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { cubicResize } from "../../pipeline/cubic_resize.ts";
import { cutOut } from "../../pipeline/inpainting.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import type { Sight } from "./config.ts";

export interface GivenShape {
  /** Whether the latents of the image are needed: as a start, or as what is kept. */
  readonly isDrawn: boolean;
  /** Whether the run begins with noise alone. */
  readonly isNoise: boolean;
  /** What the UNet sees beside the sample. */
  readonly sight: Sight | undefined;
}

export function givenShape(
  { task, mask, strength = 1, numInferenceSteps: steps }: PipelineRequest,
  sight: Sight | undefined,
): GivenShape & { readonly start: number } {
  if (task !== "TI2I" || sight === "image") {
    return { isDrawn: false, isNoise: true, sight, start: 0 };
  }
  // As the reference does: of a whole strength nothing but noise where a mask says what is kept.
  const isNoise = strength === 1 && (mask !== undefined || sight === "mask");
  return {
    isDrawn: !(isNoise && sight === "mask"),
    isNoise,
    sight,
    start: strengthStart(steps, strength, "steps"),
  };
}

interface GivenInputs {
  readonly moments: DeviceTensor | undefined;
  readonly momentNoise: InputSpec | undefined;
  readonly seen: DeviceTensor | undefined;
  readonly seenNoise: InputSpec | undefined;
  readonly mask: InputSpec | undefined;
}

interface DrawnNoise {
  readonly noise: Float32Array;
  readonly momentNoise: Float32Array | undefined;
  readonly seenNoise: Float32Array | undefined;
}

export class GivenImage {
  readonly inputs: GivenInputs;
  readonly #vae: KlVaeConfig;
  readonly #codec: ImageCodec;
  readonly #shape: GivenShape;
  readonly #encoder: ImageEncoder | undefined;
  readonly #scalesImage: boolean;

  constructor(
    session: Session,
    vae: KlVaeConfig,
    codec: ImageCodec,
    shape: GivenShape,
    size: TiledSize,
    scalesImage: boolean,
  ) {
    const { isDrawn, sight } = shape;
    const isMasked = sight === "mask";
    const isEncoded = isMasked || sight === "image";
    const { height, width } = size;
    const sizes = [isDrawn, isEncoded].filter(Boolean).map(() => size);
    const encoder = sizes.length > 0 ? new ImageEncoder(session, codec, sizes) : undefined;
    const noise = f32(1, vae.latent_channels, height, width);
    this.#vae = vae;
    this.#codec = codec;
    this.#shape = shape;
    this.#encoder = encoder;
    this.#scalesImage = scalesImage;
    this.inputs = {
      moments: isDrawn ? encoder!.moments[0] : undefined,
      momentNoise: isDrawn ? noise : undefined,
      seen: isEncoded ? encoder!.moments.at(-1) : undefined,
      seenNoise: isMasked ? noise : undefined,
      mask: isMasked || sight === "depth" ? f32(1, height * width, 1) : undefined,
    };
  }

  /** Latents as tokens, and what the UNet sees beside the sample: the mask and the latents of the rest, or those of the image. */
  trace(
    { moments, momentNoise, seen, seenNoise, mask }: {
      readonly [Name in keyof GivenInputs]: Tensor | undefined;
    },
  ): { readonly image: Tensor | undefined; readonly conditions: Tensor | undefined } {
    const tokens = (moments: Tensor, noise?: Tensor, isScaled = true) => {
      const drawn = posteriorLatents(moments, noise);
      const latents = isScaled ? scaleLatents(this.#vae, drawn) : drawn;
      return latents.reshape(1, -1, latents.dim(-1));
    };
    return {
      image: moments && tokens(moments, momentNoise),
      conditions: !seen
        ? mask
        : mask
        ? concat([mask, tokens(seen, seenNoise)], -1)
        : tokens(seen, undefined, this.#scalesImage),
    };
  }

  /** Noise in the order of the reference. */
  draw(draw: () => Float32Array): DrawnNoise {
    const { isDrawn, sight } = this.#shape;
    const momentNoise = isDrawn ? draw() : undefined;
    return { momentNoise, noise: draw(), seenNoise: sight === "mask" ? draw() : undefined };
  }

  /** Encodes the image; gives the mask of latents or the depth map, where the UNet sees it. */
  async run(work: Work): Promise<{ readonly mask: Float32Array | undefined }> {
    const { isDrawn, sight } = this.#shape;
    if (sight !== "mask") {
      await this.#encoder?.run(work);
      return { mask: sight === "depth" ? this.#depthLatents(work.request) : undefined };
    }
    const { whole, pixels, mask } = cutOut(work.request, 0);
    const images = [...isDrawn ? [whole] : [], pixels];
    await this.#encoder!.run(work, images.map((data) => ({ data })));
    return { mask: this.#maskLatents(mask, work.request) };
  }

  /** The depth map at the size of latents, from -1 to 1. Source: `StableDiffusionDepth2ImgPipeline.prepare_depth_map`. */
  #depthLatents({ control: [map] = [], width, height }: PipelineRequest): Float32Array {
    const { scale } = this.#codec;
    const depth = cubicResize(map!, { width: width / scale, height: height / scale })
      .filter((_, i) => i % 3 === 0);
    const [least, most] = [Math.min(...depth), Math.max(...depth)];
    return depth.map((value) => most > least ? 2 * (value - least) / (most - least) - 1 : 0);
  }

  /** The mask at the first pixel of every latent, as the reference has it. */
  #maskLatents(mask: Float32Array, { width, height }: PipelineRequest): Float32Array {
    const { scale } = this.#codec;
    const columns = width / scale;
    return Float32Array.from({ length: columns * height / scale }, (_, i) => {
      return mask[scale * (Math.floor(i / columns) * width + i % columns)]!;
    });
  }
}
