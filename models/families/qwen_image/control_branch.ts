/** A ControlNet's way through the stages of Qwen-Image's pipeline. */
import {
  type DeviceTensor,
  f32,
  type Graph,
  type InputSpec,
  type Program,
  type Stored,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { posteriorSample } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { scaleLatents } from "../../autoencoders/wan/coders.ts";
import { WanImageEncoder } from "../../autoencoders/wan/image_coders.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { ControlPicture } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE, type QwenImageControlNetConfig, type QwenImageParts } from "./config.ts";
import { qwenImageControl } from "./control.ts";
import { type BlockTables, blockTables } from "./modulation.ts";
import { qwenImageContext } from "./transformer.ts";

/** What every pass takes. */
interface ControlInputs {
  /** Of the prompt, [1, text tokens, dim]. */
  readonly controlContext: Tensor;
  /** What all timesteps make of the blocks. */
  readonly controlBlocks: BlockTables;
  /** The picture's latents as patches, [1, tokens, in_channels]. */
  readonly controlPicture: Tensor;
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
  readonly #config: QwenImageControlNetConfig;
  readonly #weights: WeightScope;
  readonly #picture: ControlPicture;
  readonly #tokens: Program<{ readonly noise: InputSpec; readonly moments: DeviceTensor }, Tensor>;

  /**
   * Traces the encoder of the picture.
   *
   * @param latents of the result, [1, channels, rows, columns]
   */
  constructor(
    session: Session,
    { config, weights }: Component<QwenImageControlNetConfig>,
    vae: QwenImageParts["vae"],
    { latents, size }: { readonly latents: readonly number[]; readonly size: TiledSize },
  ) {
    const encoder = new WanImageEncoder(session, vae, [size], "control");
    this.#config = config;
    this.#weights = weights.root;
    this.#picture = new ControlPicture(session, encoder);
    this.#tokens = encoder.stage.program(
      "tokens",
      { moments: this.#picture.moments, noise: f32(...latents) },
      ({ moments, noise }) => {
        const drawn = posteriorSample(moments, rearrange(noise, "1 c y x -> 1 y x c"));
        const sides = { i: PATCH_SIDE, j: PATCH_SIDE };
        const scaled = scaleLatents(vae, drawn);
        return rearrange(scaled, "1 (y i) (x j) c -> 1 (y x) (c i j)", sides);
      },
    );
  }

  /**
   * What it makes of the first prompt; it sees no other.
   *
   * @param states of the text encoder for that prompt, [1, text tokens, width]
   */
  prompt(graph: Graph, states: Tensor): Tensor {
    return qwenImageContext(graph, this.#config, this.#weights, states);
  }

  /**
   * What all timesteps make of its blocks.
   *
   * @param embedding of `modulationTables()`
   */
  tables(embedding: Tensor): BlockTables {
    return blockTables(this.#config, this.#weights, embedding);
  }

  /** What every pass takes. */
  inputs(context: DeviceTensor, tables: Stored<BlockTables>): Stored<ControlInputs> {
    return {
      controlContext: context,
      controlBlocks: tables,
      controlPicture: this.#tokens.outputs,
      controlScale: this.#picture.scale,
    };
  }

  /**
   * What a step adds to the transformer's blocks.
   *
   * @param blocks how many these are
   */
  residuals(
    graph: Graph,
    { sample, step, ...inputs }: SteeredInputs,
    grid: TokenGrid,
    blocks: number,
  ): (x: Tensor, block: number) => Tensor {
    return qwenImageControl(graph, this.#config, this.#weights, {
      ...{ sample, step, grid },
      context: inputs.controlContext,
      picture: inputs.controlPicture,
      scale: inputs.controlScale,
      tables: inputs.controlBlocks,
    }, blocks);
  }

  /**
   * Encodes the picture of a request.
   *
   * @param noise of the draw from its moments
   */
  async run(work: Work, noise: Float32Array): Promise<void> {
    await this.#picture.run(work);
    await work.run([this.#tokens.call({ noise })]);
  }
}
