/** A ControlNet's way through the stages of FLUX.1's pipeline. */
import {
  type DeviceTensor,
  slice,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import { KlImageEncoder } from "../../pipeline/kl_coders.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { packLatents } from "../../autoencoders/kl/packing.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { type ControlledPass, controlMode, ControlPicture } from "../../pipeline/control.ts";
import type { Work } from "../../pipeline/work.ts";
import { controlModes, type Flux1ControlNetConfig, hiddenSize } from "./config.ts";
import { type ControlResiduals, flux1Control } from "./control.ts";
import { blockModulationOf, type BlockTables, blockTables, type Times } from "./modulation.ts";
import { flux1Prompt, type PromptParts } from "./transformer.ts";

/** A ControlNet in FLUX.1's pipeline, from its picture to what it adds to each step. */
export class ControlBranch {
  readonly #config: Flux1ControlNetConfig;
  readonly #weights: WeightScope;
  readonly #picture: ControlPicture;
  readonly #mode: DeviceTensor | undefined;

  /** Traces the encoder of the picture; `latents` are [1, channels, rows, columns]. */
  constructor(
    session: Session,
    { config, weights }: Component<Flux1ControlNetConfig>,
    vae: Component<KlVaeConfig>,
    { latents, size }: { readonly latents: readonly number[]; readonly size: TiledSize },
  ) {
    this.#config = config;
    this.#weights = weights.root;
    this.#picture = new ControlPicture(
      session,
      new KlImageEncoder(session, vae, [size], "control"),
      {
        noise: latents,
        tokens: ([drawn]) => packLatents(scaleLatents(vae.config, drawn!)),
      },
    );
    this.#mode = controlModes(config) && session.tensor("control mode", [1], "u32");
  }

  /** What it makes of the first prompt, of the states of T5 and what CLIP sums up; it sees no other. */
  prompt(states: Tensor, pooled: Tensor): PromptParts {
    const first = (x: Tensor) => slice(x, 0, 0, 1);
    return flux1Prompt(this.#config, this.#weights, first(states), first(pooled));
  }

  tables(times: Times): BlockTables {
    return blockTables(this.#config, this.#weights, times);
  }

  /** What a step adds to the transformer's blocks. */
  residuals(
    context: DeviceTensor,
    tables: Stored<BlockTables>,
    { sample, step, grid }: ControlledPass,
  ): ControlResiduals {
    const { graph } = sample;
    const vectors = tensorsIn<BlockTables>(graph, tables);
    return flux1Control(graph, this.#config, this.#weights, {
      ...{ sample, grid },
      context: graph.use(context),
      picture: graph.use(this.#picture.tokens),
      mode: this.#mode && graph.use(this.#mode),
      scale: graph.use(this.#picture.scale),
      modulation: blockModulationOf(vectors, step, hiddenSize(this.#config)),
    });
  }

  /** Encodes the picture of a request. */
  async run(work: Work, noise: Float32Array): Promise<void> {
    await this.#picture.run(work, noise);
    if (!this.#mode) return;
    const mode = controlModes(this.#config)!.indexOf(controlMode(work.request)!);
    await work.run([writing(this.#mode, [mode])]);
  }
}
