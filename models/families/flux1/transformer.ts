/**
 * The FLUX.1 diffusion transformer.
 *
 * Source: Black Forest Labs 2024, FLUX.1; diffusers `FluxTransformer2DModel`, whose module names are the weight names.
 */
import { concat, type Graph, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import type { Streams } from "../../double_stream.ts";
import { LayerSplit } from "../../layer_split.ts";
import { linearLayer } from "../../layers.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { ALONE, type Ranks } from "../../ranks.ts";
import { EPS, Flux1Blocks, type Flux1Sizes } from "./blocks.ts";
import { hiddenSize } from "./config.ts";
import type { ControlResiduals } from "./control.ts";
import type { Modulation } from "./modulation.ts";

/** Weights of a double block, in those of a single one. */
const DOUBLE_SIZE = 2.4;

/** Inputs of one forward pass. */
interface Flux1Inputs {
  /** Of {@linkcode flux1Context} for one prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, features]. */
  readonly sample: Tensor;
  /** What Fill takes beside each token of the sample, [1, tokens, in_channels - out_channels]. */
  readonly conditions?: Tensor | undefined;
  /** Packed latents of an input image. */
  readonly reference?: Tensor | undefined;
  /** How the tokens of the sample lie, then those of the input image. */
  readonly grids: readonly TokenGrid[];
  /** What the timestep makes of the blocks. */
  readonly modulation: Modulation;
  /** What a ControlNet adds to the blocks. */
  readonly control?: ControlResiduals | undefined;
  /** With which other GPUs it is computed; alone when left out. Where something is added to the blocks, each computes all. */
  readonly ranks?: Ranks;
}

/**
 * What the blocks take of the prompt before they change it; it depends on no step.
 *
 * @param states of T5, [prompts, text tokens, joint_attention_dim]
 * @returns [prompts, text tokens, dim]
 */
export function flux1Context(
  config: Flux1Sizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns of the tokens of the sample, [1, tokens, features]
 */
export function flux1Transformer(
  graph: Graph,
  config: Flux1Sizes,
  weights: WeightScope,
  { context, sample, conditions, reference, grids, modulation, control, ...given }: Flux1Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const textTokens = context.dim(1);
  const { double, single } = modulation;
  const { ranks = ALONE } = control ? {} : given;
  const blocks = new Flux1Blocks(graph, config, weights, { textTokens, grids, modulation, ranks });
  const { split } = blocks;
  const layers = new LayerSplit(ranks.layers, [
    ...double.map(() => DOUBLE_SIZE),
    ...single.map(() => 1),
  ]);
  const steered = control?.(textTokens, { double: double.length, single: single.length });
  const own = conditions ? concat([sample, conditions], -1) : sample;
  const tokens = reference ? concat([own, reference], 1) : own;
  let streams: Streams<Tensor> = {
    text: split.own(context),
    image: linearLayer(weights, "x_embedder", split.own(tokens), dim),
  };
  for (const layer of double.keys()) {
    streams = layers.run(layer, streams, (streams) => {
      const { text, image } = blocks.double(streams, layer);
      return { text, image: steered?.double(image, layer) ?? image };
    });
  }
  let x = concat([streams.text, streams.image], 1);
  for (const layer of single.keys()) {
    ({ x } = layers.run(double.length + layer, { x }, (own) => {
      const x = blocks.single(own.x, layer);
      return { x: steered?.single(x, layer) ?? x };
    }));
  }
  const result = split.gatherFirst(
    x,
    { offset: split.ownCount(textTokens), count: sample.dim(1), tokens: tokens.dim(1) },
    (x) =>
      linearLayer(weights, "proj_out", x, sample.dim(-1), {
        norm: { eps: EPS, ...modulation.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}
