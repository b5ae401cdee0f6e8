/** A ControlNet's way through the stages of Qwen-Image's pipeline. */
import {
  concat,
  type DeviceTensor,
  type Graph,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
} from "../../../runtime/mod.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { WanImageEncoder } from "../../pipeline/wan_image_coders.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { type ControlledPass, ControlPicture } from "../../pipeline/control.ts";
import type { Work } from "../../pipeline/work.ts";
import type { QwenImageControlNetConfig, QwenImageParts } from "./config.ts";
import { type ControlResiduals, qwenImageControl } from "./control.ts";
import { patchesOf } from "./blocks.ts";
import { type BlockTables, blockTables } from "./modulation.ts";
import { qwenImageContext } from "./transformer.ts";

/** A ControlNet in Qwen-Image's pipeline, from its picture to what it adds to each step. */
export class ControlBranch {
  /** Whether what it sees is drawn from its moments; the reference does so by chance for inpainting, here it is the most likely. */
  readonly drawsNoise: boolean;
  readonly #config: QwenImageControlNetConfig;
  readonly #weights: WeightScope;
  readonly #picture: ControlPicture;

  /** Traces the encoder of the picture; `latents` are [1, channels, rows, columns]. */
  constructor(
    session: Session,
    { config, weights }: Component<QwenImageControlNetConfig>,
    vae: QwenImageParts["vae"],
    { latents, size }: { readonly latents: readonly number[]; readonly size: TiledSize },
  ) {
    this.#config = config;
    this.#weights = weights.root;
    const isMasked = config.extra_condition_channels > 0;
    this.drawsNoise = !isMasked;
    this.#picture = new ControlPicture(
      session,
      new WanImageEncoder(session, vae, [size], "control"),
      {
        noise: isMasked ? undefined : latents,
        tokens: ([drawn], kept) => {
          const picture = scaleLatents(vae, drawn!);
          return patchesOf(kept ? concat([picture, kept], -1) : picture);
        },
        cutOut: isMasked ? { hole: -1, size } : undefined,
      },
    );
  }

  /** What it makes of the first prompt's states, [1, text tokens, width]; it sees no other. */
  prompt(graph: Graph, states: Tensor): Tensor {
    return qwenImageContext(graph, this.#config, this.#weights, states);
  }

  /** What all timesteps make of its blocks. */
  tables(embedding: Tensor): BlockTables {
    return blockTables(this.#config, this.#weights, embedding);
  }

  /** What a step adds to the transformer's blocks. */
  residuals(
    context: DeviceTensor,
    tables: Stored<BlockTables>,
    pass: ControlledPass,
  ): ControlResiduals {
    const { graph } = pass.sample;
    return qwenImageControl(graph, this.#config, this.#weights, {
      ...pass,
      context: graph.use(context),
      picture: graph.use(this.#picture.tokens),
      scale: graph.use(this.#picture.scale),
      tables: tensorsIn<BlockTables>(graph, tables),
    });
  }

  /** Encodes the picture of a request, with noise if it is drawn from its moments. */
  async run(work: Work, noise?: Float32Array): Promise<void> {
    await this.#picture.run(work, noise);
  }
}
