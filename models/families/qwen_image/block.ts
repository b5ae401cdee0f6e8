/**
 * The block of Qwen-Image's transformer and of its ControlNets.
 *
 * Source: diffusers `QwenImageTransformerBlock`.
 */
import type { Graph, Rotation, Tensor, WeightScope } from "../../../runtime/mod.ts";
import {
  doubleBlock,
  geluFeedForward,
  type StreamModulation,
  type Streams,
} from "../../blocks/double_stream.ts";
import { ALL_TOKENS, type TokenSplit } from "../../sharing/token_split.ts";
import { EPS, type QwenImageSizes } from "./config.ts";

const FEED_FORWARDS = { image: "img_mlp", text: "txt_mlp" };

/** Traces one block: text and images have weights of their own, and attend each other. */
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
    return doubleBlock(
      ...[
        heads,
        block,
        streams,
        vectors,
        rotary,
        geluFeedForward(EPS),
        split,
        FEED_FORWARDS,
      ] as const,
    );
  });
}
