/**
 * ControlNets of FLUX.1: a copy of some of its blocks sees a control picture beside the sample, and what each of them
 * gives is added to what the transformer's give.
 *
 * Source: diffusers `FluxControlNetModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import type { Streams } from "../../double_stream.ts";
import { linearLayer } from "../../layers.ts";
import { steering } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { Flux1Blocks } from "./blocks.ts";
import { type Flux1ControlNetConfig, hiddenSize } from "./config.ts";
import type { BlockModulation } from "./modulation.ts";

/** Inputs of one pass. */
interface ControlInputs {
  /** Of `flux1Context()` with the ControlNet's weights, for the prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, features]. */
  readonly sample: Tensor;
  /** Likewise of the control picture. */
  readonly picture: Tensor;
  /** Kind of the picture, u32 [1]; not where all are alike. */
  readonly mode?: Tensor | undefined;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
  /** How the tokens lie. */
  readonly grid: TokenGrid;
  /** What the timestep makes of the ControlNet's blocks. */
  readonly modulation: BlockModulation;
}

/** From what a block gives to what the next one takes. */
type Steered = (x: Tensor, block: number) => Tensor;

/**
 * What a ControlNet adds to the blocks of a transformer. Its own blocks are computed when they are first needed, so that
 * not all of their results are kept at a time.
 *
 * @param textTokens of the transformer, which come before the image in single blocks
 * @param blocks how many the transformer has
 */
export type ControlResiduals = (
  textTokens: number,
  blocks: { readonly double: number; readonly single: number },
) => { readonly double: Steered; readonly single: Steered };

/** Traces a ControlNet. */
export function flux1Control(
  graph: Graph,
  config: Flux1ControlNetConfig,
  weights: WeightScope,
  { context, sample, picture, mode, scale, grid, modulation }: ControlInputs,
): ControlResiduals {
  const dim = hiddenSize(config);
  const within = <T>(trace: () => T) => graph.scope("controlnet", trace);
  const text = mode
    ? within(() => {
      const modes = weights.tensor(graph, "controlnet_mode_embedder.weight", [
        config.num_mode!,
        dim,
      ]);
      return concat([gather(modes, mode).reshape(1, 1, dim), context], 1);
    })
    : context;
  const textTokens = text.dim(1);
  const blocks = new Flux1Blocks(graph, config, weights, {
    ...{ textTokens, grids: [grid], modulation },
  });
  const residual = (name: string, layer: number, x: Tensor) =>
    linearLayer(weights.scope(name), String(layer), x, dim);
  let streams: Streams<Tensor> = {
    text,
    image: within(() =>
      linearLayer(weights, "controlnet_x_embedder", picture, dim, {
        residual: linearLayer(weights, "x_embedder", sample, dim),
      })
    ),
  };
  function* double() {
    for (let layer = 0; layer < config.num_layers; layer++) {
      yield within(() => {
        streams = blocks.double(streams, layer);
        return residual("controlnet_blocks", layer, streams.image);
      });
    }
  }
  const doubles = double();
  function* single(before: number) {
    // Those that no block of the transformer asked for.
    while (!doubles.next().done) continue;
    let x = concat([streams.text, streams.image], 1);
    for (let layer = 0; layer < config.num_single_layers; layer++) {
      yield within(() => {
        x = blocks.single(x, layer);
        const own = residual("controlnet_single_blocks", layer, slice(x, 1, textTokens, x.dim(1)));
        // The text stays as it is.
        const nothing = elementwise("0.0 * x", { x: slice(x, 1, 0, before) });
        return concat([nothing, own], 1);
      });
    }
  }
  return (before, count) => ({
    double: steering(doubles, { residuals: config.num_layers, blocks: count.double }, scale),
    single: steering(single(before), {
      residuals: config.num_single_layers,
      blocks: count.single,
    }, scale),
  });
}
