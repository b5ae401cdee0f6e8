/** A ControlNet's way through the stages of FLUX.1's pipeline. */
import {
  type DeviceTensor,
  f32,
  type Graph,
  type InputSpec,
  type Program,
  slice,
  type Stored,
  type Tensor,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import { KlImageEncoder } from "../../autoencoders/kl/coders.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { packLatents } from "../../autoencoders/kl/packing.ts";
import { posteriorSample, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { embeddingLayers } from "../../layers.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { controlMode, ControlPicture } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { controlModes, type Flux1ControlNetConfig, hiddenSize } from "./config.ts";
import { type ControlResiduals, flux1Control } from "./control.ts";
import { blockModulationOf, type BlockTables, blockTables, type Times } from "./modulation.ts";
import { flux1Context } from "./transformer.ts";

/** What a ControlNet makes of the prompt. */
interface PromptParts {
  /** [1, text tokens, dim] */
  readonly context: Tensor;
  /** [1, dim] */
  readonly summary: Tensor;
}

/** What every pass takes. */
interface ControlInputs {
  /** Of the prompt, [1, text tokens, dim]. */
  readonly controlContext: Tensor;
  /** What all timesteps make of the double blocks, and of the single ones. */
  readonly controlDouble: BlockTables["double"];
  readonly controlSingle: BlockTables["single"];
  /** Packed latents of the picture, [1, tokens, features]. */
  readonly controlPicture: Tensor;
  /** Kind of the picture, u32 [1]. */
  readonly controlMode: Tensor | undefined;
  /** f32 [1] */
  readonly controlScale: Tensor;
}

/** Likewise, with what the loop gives. */
export interface SteeredInputs extends ControlInputs {
  readonly sample: Tensor;
  readonly step: Tensor;
}

/** See the file comment. */
export class ControlBranch {
  readonly #config: Flux1ControlNetConfig;
  readonly #weights: WeightScope;
  readonly #picture: ControlPicture;
  readonly #tokens: Program<{ readonly noise: InputSpec; readonly moments: DeviceTensor }, Tensor>;
  readonly #mode: DeviceTensor | undefined;

  /**
   * Traces the encoder of the picture.
   *
   * @param latents of the result, [1, channels, rows, columns]
   */
  constructor(
    session: Session,
    { config, weights }: Component<Flux1ControlNetConfig>,
    vae: Component<KlVaeConfig>,
    { latents, size }: { readonly latents: readonly number[]; readonly size: TiledSize },
  ) {
    const encoder = new KlImageEncoder(session, vae, [size], "control");
    this.#config = config;
    this.#weights = weights.root;
    this.#picture = new ControlPicture(session, encoder);
    this.#tokens = encoder.stage.program(
      "tokens",
      { moments: this.#picture.moments, noise: f32(...latents) },
      ({ moments, noise }) => {
        const drawn = posteriorSample(moments, rearrange(noise, "1 c y x -> 1 y x c"));
        return packLatents(scaleLatents(vae.config, drawn));
      },
    );
    this.#mode = controlModes(config) && session.tensor("control mode", [1], "u32");
  }

  /**
   * What it makes of the first prompt; it sees no other.
   *
   * @param states of T5, [prompts, text tokens, width]
   * @param pooled of CLIP, [prompts, width]
   */
  prompt(states: Tensor, pooled: Tensor): PromptParts {
    const embedder = this.#weights.scope("time_text_embed").scope("text_embedder");
    const dim = hiddenSize(this.#config);
    return {
      context: flux1Context(this.#config, this.#weights, slice(states, 0, 0, 1)),
      summary: embeddingLayers(embedder, slice(pooled, 0, 0, 1), dim),
    };
  }

  /** What all timesteps make of its blocks. */
  tables(times: Times): BlockTables {
    return blockTables(this.#config, this.#weights, times);
  }

  /** What every pass takes. */
  inputs(context: DeviceTensor, { double, single }: Stored<BlockTables>): Stored<ControlInputs> {
    return {
      controlContext: context,
      controlDouble: double,
      controlSingle: single,
      controlPicture: this.#tokens.outputs,
      controlMode: this.#mode,
      controlScale: this.#picture.scale,
    };
  }

  /** What a step adds to the transformer's blocks. */
  residuals(
    graph: Graph,
    { sample, step, ...inputs }: SteeredInputs,
    grid: TokenGrid,
  ): ControlResiduals {
    const tables = { double: inputs.controlDouble, single: inputs.controlSingle };
    return flux1Control(graph, this.#config, this.#weights, {
      ...{ sample, grid },
      context: inputs.controlContext,
      picture: inputs.controlPicture,
      mode: inputs.controlMode,
      scale: inputs.controlScale,
      modulation: blockModulationOf(tables, step, hiddenSize(this.#config)),
    });
  }

  /**
   * Encodes the picture of a request.
   *
   * @param noise of the draw from its moments
   */
  async run(work: Work, noise: Float32Array): Promise<void> {
    await this.#picture.run(work);
    await work.run([this.#tokens.call({ noise })]);
    if (!this.#mode) return;
    const mode = controlModes(this.#config)!.indexOf(controlMode(work.request)!);
    await work.run([writing(this.#mode, [mode])]);
  }
}
