/**
 * ControlNets of Qwen-Image: copies of blocks see a picture beside the sample; their results are added to the blocks'.
 * Source: diffusers `QwenImageControlNetModel`, whose module names are the weight names.
 */
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
import type { Streams } from "../../blocks/double_stream.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import {
  type ControlledPass,
  type ControlState,
  type Steering,
  steering,
  traceControlPicture,
} from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import type { TokenSplit } from "../../sharing/token_split.ts";
import {
  imagePositions,
  patchesOf,
  qwenImageBlock,
  qwenImageContext,
  rotaryOf,
  textPositions,
} from "./blocks.ts";
import type { QwenImageControlNetConfig, QwenImageParts } from "./config.ts";
import { blockModulation, type BlockTables, blockTables } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

interface ControlInputs {
  /** Prompt from `qwenImageContext()` with the ControlNet's weights: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  /** The control picture as patches, [1, tokens, in_channels]. */
  readonly picture: Tensor;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
  readonly grid: TokenGrid;
  readonly tables: BlockTables;
  /** Row of them, u32 [1]. */
  readonly step: Tensor;
}

export interface ControlSteps {
  readonly begin: ControlState<Streams<Tensor>>;
  readonly after: Steering<Streams<Tensor>>;
}

export type ControlResiduals = (split: TokenSplit, blocks: number) => ControlSteps;

export function qwenImageControl(
  graph: Graph,
  config: QwenImageControlNetConfig,
  weights: WeightScope,
  { context, sample, picture, scale, grid, tables, step }: ControlInputs,
): ControlResiduals {
  const dim = hiddenSize(config);
  const within = <T>(trace: () => T) => graph.scope("controlnet", trace);
  return (outer, blocks) => {
    // The prompt that it sees may be another one than the pass has.
    const split = outer.like([context.dim(1), sample.dim(1)]);
    const rotaryTables = (name: string, places: readonly number[][]) =>
      rotaryOf(graph, name, config, split.ownOf(places));
    const rotary = {
      text: rotaryTables("text", textPositions(context.dim(1), [grid])),
      image: rotaryTables("image", imagePositions([grid])),
    };
    const image = within(() =>
      linearLayer(weights, "controlnet_x_embedder", split.own(picture), dim, {
        residual: linearLayer(weights, "img_in", split.own(sample), dim),
      })
    );
    return {
      begin: { own: { text: split.own(context), image }, residual: outer.ownBeside(image, split) },
      after: steering<Streams<Tensor>>(
        ...[{ residuals: tables.length, blocks }, scale] as const,
        (streams, layer) =>
          within(() => {
            const vectors = blockModulation(tables[layer]!, step);
            const given = { layer, streams, vectors, rotary, split };
            const own = qwenImageBlock(graph, config, weights, given);
            const image = outer.ownBeside(own.image, split);
            const residual = linearLayer(weights, `controlnet_blocks.${layer}`, image, dim);
            return { own, residual };
          }),
      ),
    };
  };
}

interface ControlBranch {
  /** Whether what it sees is drawn from its moments; the reference does so by chance for inpainting, here it is the most likely. */
  readonly drawsNoise: boolean;
  /** What it makes of the first prompt's states, [1, text tokens, width]; it sees no other. */
  prompt(graph: Graph, states: Tensor): Tensor;
  tables(embedding: Tensor): BlockTables;
  residuals(
    context: DeviceTensor,
    tables: Stored<BlockTables>,
    pass: ControlledPass,
  ): ControlResiduals;
  run(work: Work, noise?: Float32Array): Promise<void>;
}

export function traceControlBranch(
  session: Session,
  { config, weights: { root: weights } }: Component<QwenImageControlNetConfig>,
  vae: QwenImageParts["vae"],
  { latents, size }: { readonly latents: readonly number[]; readonly size: TiledSize },
): ControlBranch {
  const isMasked = config.extra_condition_channels > 0;
  const encoder = new ImageEncoder(session, wanImageCodec(vae), [size], "control");
  const picture = traceControlPicture(session, encoder, {
    noise: isMasked ? undefined : latents,
    tokens: ([drawn], kept) => {
      const latents = scaleLatents(vae, drawn!);
      return patchesOf(kept ? concat([latents, kept], -1) : latents);
    },
    cutOut: isMasked ? { hole: -1, size } : undefined,
  });
  return {
    drawsNoise: !isMasked,
    prompt: (graph, states) => qwenImageContext(graph, config, weights, states),
    tables: (embedding) => blockTables(config, weights, embedding),
    residuals(context, tables, pass) {
      const { graph } = pass.sample;
      return qwenImageControl(graph, config, weights, {
        ...pass,
        context: graph.use(context),
        picture: graph.use(picture.tokens),
        scale: graph.use(picture.scale),
        tables: tensorsIn<BlockTables>(graph, tables),
      });
    },
    run: picture.run,
  };
}
