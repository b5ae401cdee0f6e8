/** The FLUX.1 diffusion transformer. Source: Black Forest Labs 2024, FLUX.1; diffusers `FluxTransformer2DModel`. */
import { concat, type Graph, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import type { Streams } from "../../blocks/double_stream.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { type ControlStates, type SteeredByAll, steeredByAll } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { EPS, type FeedForwardKind, Flux1Blocks, type Flux1Sizes, positions } from "./blocks.ts";
import type { ControlResiduals } from "./control.ts";
import type { Modulation } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Weights of a double block, in those of a single one. */
const DOUBLE_SIZE = 2.4;

interface Flux1Inputs {
  /** Prompt from `flux1Context()`: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, features]. */
  readonly sample: Tensor;
  /** What Fill takes beside each token of the sample, [1, tokens, in_channels - out_channels]. */
  readonly conditions?: Tensor | undefined;
  readonly reference?: Tensor | undefined;
  readonly grids: readonly TokenGrid[];
  /** Positions of all tokens, those of the text first, where they are not FLUX.1's. */
  readonly places?: readonly number[][];
  readonly kind?: FeedForwardKind;
  readonly modulation: Modulation;
  readonly controls?: readonly ControlResiduals[] | undefined;
  readonly ranks?: Ranks;
}

/** Predicts the velocity of the flow, of the tokens of the sample: [1, tokens, features]. */
export function flux1Transformer(
  graph: Graph,
  config: Flux1Sizes,
  weights: WeightScope,
  {
    context,
    sample,
    conditions,
    reference,
    grids,
    modulation,
    controls = [],
    ranks = ALONE,
    ...kinds
  }: Flux1Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const textTokens = context.dim(1);
  const { double, single } = modulation;
  const own = conditions ? concat([sample, conditions], -1) : sample;
  const tokens = reference ? concat([own, reference], 1) : own;
  const split = new TokenSplit(ranks.sequence, [textTokens, tokens.dim(1)]);
  const blocks = new Flux1Blocks(graph, config, weights, {
    ...{ textTokens, places: positions(textTokens, grids), modulation, split },
    ...kinds,
  });
  const layers = new LayerSplit(ranks.layers, [
    ...double.map(() => DOUBLE_SIZE),
    ...single.map(() => 1),
  ]);
  const count = { double: double.length, single: single.length };
  const steps = controls.map((control) => control(split, textTokens, count));
  let streams: Streams<Tensor> = {
    text: split.own(context),
    image: linearLayer(weights, "x_embedder", split.own(tokens), dim),
  };
  let beside: ControlStates<Streams<Tensor>> = steps.map(({ begin }) => begin);
  for (const layer of double.keys()) {
    ({ streams, beside } = layers.run(layer, { streams, beside }, (given) => {
      const { text, image } = blocks.double(given.streams, layer);
      const next = { x: image, controls: given.beside };
      const { x, controls } = steeredByAll(steps.map((step) => step.double), next, layer);
      return { streams: { text, image: x }, beside: controls };
    }));
  }
  const joined = concat([streams.text, streams.image], 1);
  let all: SteeredByAll<Tensor> = {
    x: joined,
    controls: steps.map((step, i) => step.single(beside[i]!.own, joined)),
  };
  for (const layer of single.keys()) {
    all = layers.run(double.length + layer, all, ({ x, controls }) => {
      const next = { x: blocks.single(x, layer), controls };
      return steeredByAll(steps.map((step) => step.singles), next, layer);
    });
  }
  const result = split.gatherFirst(
    all.x,
    { offset: split.ownCount(textTokens), count: sample.dim(1), tokens: tokens.dim(1) },
    (x) =>
      linearLayer(weights, "proj_out", x, sample.dim(-1), {
        norm: { eps: EPS, ...modulation.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}
