/**
 * Qwen-Image's block and tokens. Rows and columns count from the middle; the text goes on where the largest image ends.
 * Source: diffusers `QwenImageTransformerBlock`, `QwenEmbedRope` with `scale_rope`, and `QwenEmbedLayer3DRope`.
 */
import {
  type Graph,
  rmsNorm,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { EPS, PATCH_SIDE, type QwenImageSizes, type QwenImageTransformerConfig } from "./config.ts";
import {
  doubleBlock,
  geluFeedForward,
  type StreamModulation,
  type Streams,
} from "../../blocks/double_stream.ts";
import { ALL_TOKENS, type TokenSplit } from "../../sharing/token_split.ts";
import { rearrange } from "../../rearrange.ts";
import { hiddenSize } from "../../config.ts";

/** Base of the rotary frequencies, whatever the configuration says. */
const THETA = 10000;

export function imagePositions(grids: readonly TokenGrid[], areLayers = false): number[][] {
  return grids.flatMap(({ rows, columns }, i) => {
    const image = areLayers && i === grids.length - 1 ? -1 : i;
    const [top, left] = [rows, columns].map((side) => Math.floor(side / 2) - side) as [
      number,
      number,
    ];
    return Array.from(
      { length: rows * columns },
      (_, i) => [image, top + Math.floor(i / columns), left + i % columns],
    );
  });
}

export function textPositions(
  tokens: number,
  grids: readonly TokenGrid[],
  areLayers = false,
): number[][] {
  const sides = grids.flatMap(({ rows, columns }) => [rows, columns]);
  const ends = sides.map((side) => Math.floor(side / 2));
  const first = Math.max(...ends, ...areLayers ? [grids.length - 1] : []);
  return Array.from({ length: tokens }, (_, place) => new Array<number>(3).fill(first + place));
}

export function rotaryOf(
  graph: Graph,
  name: string,
  { axes_dims_rope }: Pick<QwenImageTransformerConfig, "axes_dims_rope">,
  tokens: readonly (readonly number[])[],
): Rotation {
  return rotaryConstants(graph, name, tokens, axes_dims_rope, THETA);
}

const FEED_FORWARDS = { image: "img_mlp", text: "txt_mlp" };

export function qwenImageBlock(
  graph: Graph,
  config: QwenImageSizes,
  weights: WeightScope,
  { layer, streams, vectors, rotary, split = ALL_TOKENS }: {
    readonly layer: number;
    readonly streams: Streams<Tensor>;
    readonly vectors: Streams<StreamModulation>;
    readonly rotary: Streams<Rotation>;
    readonly split?: TokenSplit;
  },
): Streams<Tensor> {
  return graph.scope(`transformer_blocks.${layer}`, () => {
    const block = weights.scope("transformer_blocks").scope(layer);
    const heads = { ...config, eps: EPS };
    const feedForward = geluFeedForward(EPS);
    return doubleBlock(
      heads,
      block,
      streams,
      vectors,
      rotary,
      feedForward,
      split,
      FEED_FORWARDS,
    );
  });
}

/** Patches, [1, patches, 4·channels], of latents, [1, height, width, channels]; each holds (channel, row, column). */
export function patchesOf(latents: Tensor): Tensor {
  const sides = { i: PATCH_SIDE, j: PATCH_SIDE };
  return rearrange(latents, "1 (y i) (x j) c -> 1 (y x) (c i j)", sides);
}

/** What the blocks take of the text encoder's states at first, [prompts, text tokens, dim]. */
export function qwenImageContext(
  graph: Graph,
  config: QwenImageSizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const normed = rmsNorm(states, {
    weight: weights.tensor(graph, "txt_norm.weight", [config.joint_attention_dim]),
    eps: EPS,
    name: "txt_norm",
  });
  return linearLayer(weights, "txt_in", normed, hiddenSize(config));
}
