/** A ControlNet's way through the stages of Z-Image's pipeline. */
import {
  concat,
  type DeviceTensor,
  type Graph,
  type Program,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { KlImageEncoder } from "../../autoencoders/kl/coders.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { posteriorMode, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { ControlPicture } from "../../pipeline/control.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE, type ZImageControlNetConfig, type ZImageTransformerConfig } from "./config.ts";
import { controlStacks, zImageControl } from "./control.ts";
import { controlTable } from "./modulation.ts";
import type { ControlResiduals } from "./transformer.ts";

/** Weight of a picture where a request says none; that of diffusers. */
const USUAL_SCALE = 0.75;

/** What a ControlNet goes with. */
interface ControlParts {
  readonly controlnet: Component<ZImageControlNetConfig>;
  readonly transformer: Component<ZImageTransformerConfig>;
  readonly vae: Component<KlVaeConfig>;
}

/** See the file comment. */
export class ControlBranch {
  readonly #config: ZImageControlNetConfig;
  readonly #transformer: Component<ZImageTransformerConfig>;
  readonly #weights: { readonly weights: WeightScope; readonly control: WeightScope };
  readonly #picture: ControlPicture;
  readonly #tokens: Program<{ readonly moments: DeviceTensor }, Tensor>;

  /**
   * Traces the encoder of the picture.
   *
   * @param size of the result
   */
  constructor(session: Session, { controlnet, transformer, vae }: ControlParts, size: TiledSize) {
    const encoder = new KlImageEncoder(session, vae, [size], "control");
    this.#config = controlnet.config;
    this.#transformer = transformer;
    this.#weights = { weights: transformer.weights.root, control: controlnet.weights.root };
    this.#picture = new ControlPicture(session, encoder, USUAL_SCALE);
    const { moments } = this.#picture;
    this.#tokens = encoder.stage.program("tokens", { moments }, ({ moments }, graph) => {
      const latents = scaleLatents(vae.config, posteriorMode(moments));
      const empty = controlnet.config.control_in_dim - latents.dim(-1);
      const shape = [...latents.shape.slice(0, -1), empty];
      const zeros = new Float32Array(shape.reduce((product, side) => product * side, 1));
      const all = empty === 0
        ? latents
        : concat([latents, graph.constant("empty", shape, "f32", zeros)], -1);
      const sides = { i: PATCH_SIDE, j: PATCH_SIDE };
      return rearrange(all, "1 (y i) (x j) c -> 1 (y x) (i j c)", sides);
    });
  }

  /** Tensors that every step takes beside those of `begin`. */
  get inputs(): { readonly controlPicture: DeviceTensor; readonly controlScale: DeviceTensor } {
    return { controlPicture: this.#tokens.outputs, controlScale: this.#picture.scale };
  }

  /**
   * What all timesteps make of its blocks.
   *
   * @param embedding of `modulationTable()`
   */
  table(embedding: Tensor): Tensor {
    const { weights, control } = this.#weights;
    const { config } = this.#transformer;
    return controlTable(config, weights, control, controlStacks(this.#config), embedding);
  }

  /**
   * What a step adds to the transformer's layers.
   *
   * @param modulation of the step, a row of {@linkcode table}
   */
  residuals(
    graph: Graph,
    picture: Tensor,
    scale: Tensor,
    modulation: Tensor,
  ): ControlResiduals {
    return zImageControl(graph, this.#config, this.#weights, { picture, modulation, scale });
  }

  /** Encodes the picture of a request. */
  async run(work: Work): Promise<void> {
    await this.#picture.run(work);
    await work.run([this.#tokens.call({})]);
  }
}
