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
  type SeenPicture,
  type Steering,
  steering,
  traceControlPictures,
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
import { type QwenImageControlNetConfig, type QwenImageParts, seesMask } from "./config.ts";
import { blockModulation, type BlockTables, blockTables } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Pictures are patches. */
interface ControlInputs extends SeenPicture {
  /** Prompt from `qwenImageContext()` with the ControlNet's weights: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]. */
  readonly sample: Tensor;
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

interface Controls {
  /** Whether what it sees is drawn from its moments; the reference does so by chance for inpainting, here it is the most likely. */
  readonly drawsNoise: boolean;
  /** What each ControlNet makes of the first prompt's states, [1, text tokens, width]; it sees no other. */
  prompts(graph: Graph, states: Tensor): Tensor[];
  tables(embedding: Tensor): BlockTables[];
  /** Of each picture. */
  residuals(
    contexts: readonly DeviceTensor[],
    tables: readonly Stored<BlockTables>[],
    pass: ControlledPass,
  ): ControlResiduals[];
  /** `noise` is that of each picture, where it is drawn. */
  run(work: Work, noise?: readonly Float32Array[]): Promise<void>;
}

/** @param shown the ControlNet of each picture; one may see several */
export function traceControls(
  session: Session,
  shown: readonly Component<QwenImageControlNetConfig>[],
  vae: QwenImageParts["vae"],
  { latents, size, steps }: {
    readonly latents: readonly number[];
    readonly size: TiledSize;
    readonly steps: number;
  },
): Controls {
  const nets = [...new Set(shown)];
  const isMasked = seesMask(nets[0]!);
  const codec = wanImageCodec(vae);
  const encoder = new ImageEncoder(session, codec, shown.map(() => size), "control");
  const pictures = traceControlPictures(session, encoder, {
    pictures: shown.length,
    steps,
    noise: isMasked ? undefined : latents,
    tokens: ([drawn], kept) => {
      const latents = scaleLatents(vae, drawn!);
      return patchesOf(kept ? concat([latents, kept], -1) : latents);
    },
    cutOut: isMasked ? { hole: -1, size } : undefined,
  });
  return {
    drawsNoise: !isMasked,
    prompts: (graph, states) =>
      nets.map(({ config, weights: { root } }) => qwenImageContext(graph, config, root, states)),
    tables: (embedding) =>
      nets.map(({ config, weights: { root } }) => blockTables(config, root, embedding)),
    residuals(contexts, tables, pass) {
      const { graph } = pass.sample;
      const seen = pictures.seen(graph, pass.step);
      return shown.map((net, i) => {
        const own = nets.indexOf(net);
        return qwenImageControl(graph, net.config, net.weights.root, {
          ...pass,
          ...seen[i]!,
          context: graph.use(contexts[own]!),
          tables: tensorsIn<BlockTables>(graph, tables[own]!),
        });
      });
    },
    run: pictures.run,
  };
}
