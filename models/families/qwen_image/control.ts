/**
 * ControlNets of Qwen-Image: a copy of some of its blocks sees a control picture beside the sample, and what each of them
 * gives is added to what the transformer's give.
 *
 * Source: diffusers `QwenImageControlNetModel`, whose module names are the weight names.
 */
import type { Graph, Tensor, WeightScope } from "../../../runtime/mod.ts";
import type { Streams } from "../../double_stream.ts";
import { linearLayer } from "../../layers.ts";
import { steering } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { hiddenSize, type QwenImageControlNetConfig } from "./config.ts";
import { blockModulation, type BlockTables } from "./modulation.ts";
import { imagePositions, rotaryOf, textPositions } from "./positions.ts";
import { qwenImageBlock } from "./transformer.ts";

/** Inputs of one pass. */
interface ControlInputs {
  /** Of `qwenImageContext()` with the ControlNet's weights, for the prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  /** Likewise of the control picture. */
  readonly picture: Tensor;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
  /** How the tokens lie. */
  readonly grid: TokenGrid;
  /** What all timesteps make of the ControlNet's blocks. */
  readonly tables: BlockTables;
  /** Row of them, u32 [1]. */
  readonly step: Tensor;
}

/**
 * Traces a ControlNet; each of its blocks when it is first needed.
 *
 * @param blocks how many the transformer has
 * @returns from what the block of an index gives to what the next one takes
 */
export function qwenImageControl(
  graph: Graph,
  config: QwenImageControlNetConfig,
  weights: WeightScope,
  { context, sample, picture, scale, grid, tables, step }: ControlInputs,
  blocks: number,
): (x: Tensor, block: number) => Tensor {
  const dim = hiddenSize(config);
  const within = <T>(trace: () => T) => graph.scope("controlnet", trace);
  const rotary = {
    text: rotaryOf(graph, "text", config, textPositions(context.dim(1), [grid])),
    image: rotaryOf(graph, "image", config, imagePositions([grid])),
  };
  function* residuals() {
    let streams: Streams<Tensor> = {
      text: context,
      image: within(() =>
        linearLayer(weights, "controlnet_x_embedder", picture, dim, {
          residual: linearLayer(weights, "img_in", sample, dim),
        })
      ),
    };
    for (const [layer, own] of tables.entries()) {
      yield within(() => {
        const vectors = blockModulation(own, step);
        streams = qwenImageBlock(graph, config, weights, { layer, streams, vectors, rotary });
        return linearLayer(weights, `controlnet_blocks.${layer}`, streams.image, dim);
      });
    }
  }
  return steering(residuals(), { residuals: tables.length, blocks }, scale);
}
