/** A ControlNet's way through the stages of Z-Image's pipeline. */
import {
  concat,
  type DeviceTensor,
  gather,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { KlImageEncoder } from "../../pipeline/kl_coders.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { type ControlledPass, ControlPicture } from "../../pipeline/control.ts";
import type { Work } from "../../pipeline/work.ts";
import type { ZImageControlNetConfig, ZImageTransformerConfig } from "./config.ts";
import { controlStacks, ZImageControl } from "./control.ts";
import { controlTable } from "./modulation.ts";
import { patchesOf } from "./positions.ts";

/** Weight of a picture where a request says none; that of diffusers. */
const USUAL_SCALE = 0.75;

interface ControlParts {
  readonly controlnet: Component<ZImageControlNetConfig>;
  readonly transformer: Component<ZImageTransformerConfig>;
  readonly vae: Component<KlVaeConfig>;
}

/** A ControlNet in Z-Image's pipeline, from its picture to what it adds to each step. */
export class ControlBranch {
  readonly #config: ZImageControlNetConfig;
  readonly #transformer: Component<ZImageTransformerConfig>;
  readonly #weights: { readonly weights: WeightScope; readonly control: WeightScope };
  readonly #picture: ControlPicture;

  /** Traces the encoder of the picture, and of what a mask keeps of the image. */
  constructor(
    session: Session,
    { controlnet, transformer, vae }: ControlParts,
    size: TiledSize,
    isMasked: boolean,
  ) {
    const { config, weights } = controlnet;
    this.#config = config;
    this.#transformer = transformer;
    this.#weights = { weights: transformer.weights.root, control: weights.root };
    this.#picture = new ControlPicture(
      session,
      new KlImageEncoder(session, vae, isMasked ? [size, size] : [size], "control"),
      {
        usualScale: USUAL_SCALE,
        tokens: (latents, kept) => {
          const [picture, image] = latents.map((each) => scaleLatents(vae.config, each));
          const seen = image ? concat([picture!, kept!, image], -1) : picture!;
          return patchesOf(widened(seen, config.control_in_dim));
        },
        cutOut: isMasked ? { hole: 0, size } : undefined,
      },
    );
  }

  /** What all timesteps make of its blocks. */
  table(embedding: Tensor): Tensor {
    const { weights, control } = this.#weights;
    const { config } = this.#transformer;
    return controlTable(config, weights, control, controlStacks(this.#config), embedding);
  }

  /** What a step adds to the transformer's layers. */
  residuals(table: DeviceTensor, { sample: { graph }, step }: ControlledPass): ZImageControl {
    return new ZImageControl(graph, this.#config, this.#weights, {
      modulation: gather(graph.use(table), step),
      picture: graph.use(this.#picture.tokens),
      scale: graph.use(this.#picture.scale),
    });
  }

  /** Encodes the picture of a request. */
  async run(work: Work): Promise<void> {
    await this.#picture.run(work);
  }
}

/** Latents, [1, height, width, channels], with channels of zeros up to a count. */
function widened(latents: Tensor, channels: number): Tensor {
  const shape = [...latents.shape.slice(0, -1), channels - latents.dim(-1)];
  const size = shape.reduce((product, side) => product * side, 1);
  if (size === 0) return latents;
  const zeros = latents.graph.constant("empty", shape, "f32", new Float32Array(size));
  return concat([latents, zeros], -1);
}
