/** What FLUX.1 makes of an input image: where it starts from, and what Kontext, Fill, Canny and Depth see beside it. */
import {
  concat,
  type DeviceTensor,
  f32,
  type InputSpec,
  type Tensor,
} from "../../../runtime/mod.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import { type KlVaeConfig, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE, packLatents } from "../../autoencoders/kl/packing.ts";
import { posteriorLatents, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import { controlPicture, controlUnits } from "../../pipeline/control_units.ts";
import { cutOut } from "../../pipeline/inpainting.ts";
import type { Component } from "../../pipeline/components.ts";
import { gridOf, latentSize, type TokenGrid } from "../../pipeline/latents.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { drawsAfterPicture, type Flux1Parts, isFill, KONTEXT } from "./config.ts";
import { rearrange } from "../../rearrange.ts";

export interface GivenShape {
  readonly isDrawn: boolean;
  readonly reference?: TokenGrid | undefined;
  /** What the transformer sees beside each token: the image without what is painted, or a control picture. */
  readonly seen?: "fill" | "picture" | undefined;
}

export function givenShape(
  { images: [image] = [], mask, strength = 1, numInferenceSteps: steps, sigmas }: PipelineRequest,
  { className, transformer: { config } }: Pick<Flux1Parts, "className" | "transformer">,
  sizeMultiple: number,
): GivenShape & { readonly start: number } {
  const isKontext = KONTEXT.includes(className);
  const seen = isFill(config) ? "fill" : drawsAfterPicture(config) ? "picture" : undefined;
  const isRedrawn = image !== undefined && !isKontext && seen !== "picture";
  const start = isRedrawn || mask ? strengthStart(steps, strength, "start") : 0;
  const isPureNoise = start === 0 && (sigmas?.[0] ?? 1) === 1;
  return {
    // Of pure noise nothing of the image is left; Fill sees it beside.
    isDrawn: isRedrawn && !(isPureNoise && seen === "fill"),
    seen,
    start,
    reference: isKontext && image ? gridOf(image, sizeMultiple) : undefined,
  };
}

interface GivenInputs {
  readonly moments: DeviceTensor | undefined;
  readonly momentNoise: InputSpec | undefined;
  readonly filled: DeviceTensor | undefined;
  readonly fillNoise: InputSpec | undefined;
  readonly mask: InputSpec | undefined;
}

interface DrawnNoise {
  readonly noise: Float32Array;
  readonly momentNoise: Float32Array | undefined;
  readonly fillNoise: Float32Array | undefined;
}

export class GivenImage {
  readonly inputs: GivenInputs;
  readonly #vae: Component<KlVaeConfig>;
  readonly #shape: GivenShape;
  readonly #encoder: ImageEncoder | undefined;

  constructor(session: Session, vae: Component<KlVaeConfig>, shape: GivenShape, size: TiledSize) {
    const { isDrawn, reference, seen } = shape;
    const { height, width, tileSide } = size;
    const sizes = [
      ...isDrawn ? [size] : [],
      ...reference ? [{ ...latentSize(reference, PACKED_SIDE), tileSide }] : [],
      ...seen ? [size] : [],
    ];
    const encoder = sizes.length > 0 ? new ImageEncoder(session, klCodec(vae), sizes) : undefined;
    const scale = scaleFactor(vae.config);
    const noise = f32(1, vae.config.latent_channels, height, width);
    this.#vae = vae;
    this.#shape = shape;
    this.#encoder = encoder;
    this.inputs = {
      moments: isDrawn || reference ? encoder?.moments[0] : undefined,
      momentNoise: isDrawn ? noise : undefined,
      filled: seen && encoder?.moments.at(-1),
      fillNoise: seen && noise,
      mask: seen === "fill" ? f32(height * scale, width * scale) : undefined,
    };
  }

  trace(
    { moments, momentNoise, filled, fillNoise, mask }: {
      readonly [Name in keyof GivenInputs]: Tensor | undefined;
    },
  ): { readonly image: Tensor | undefined; readonly conditions: Tensor | undefined } {
    const { config } = this.#vae;
    const tokens = (moments: Tensor, noise: Tensor | undefined) => {
      return packLatents(scaleLatents(config, posteriorLatents(moments, noise)));
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
    const { isDrawn, seen } = this.#shape;
    if (seen === "picture") return { fillNoise: draw(), noise: draw(), momentNoise: undefined };
    const first = isDrawn || seen ? draw() : undefined;
    const noise = draw();
    return { noise, momentNoise: isDrawn ? first : undefined, fillNoise: seen && draw() };
  }

  async run(work: Work): Promise<{ readonly mask: Float32Array | undefined }> {
    const { isDrawn, seen } = this.#shape;
    if (seen === "fill") {
      const { whole, pixels, mask } = cutOut(work.request, 0);
      const images = [...isDrawn ? [whole] : [], pixels];
      await this.#encoder!.run(work, images.map((data) => ({ data })));
      return { mask };
    }
    const { request } = work;
    const picture = seen && controlPicture(request.images![0]!, controlUnits(request)[0]);
    await this.#encoder?.run(work, picture && [picture]);
    return { mask: undefined };
  }
}

/**
 * The condition that FLUX.1 Fill gets with each token: the image without its masked pixels, [1, tokens, features], and
 * the mask of the token's pixels.
 * Source: diffusers `FluxFillPipeline`, `prepare_mask_latents`.
 */
export function fillConditions(image: Tensor, mask: Tensor, scale: number): Tensor {
  const sides = { i: PACKED_SIDE, j: PACKED_SIDE, a: scale, b: scale };
  return concat([image, rearrange(mask, "(y i a) (x j b) -> 1 (y x) (a b i j)", sides)], -1);
}
