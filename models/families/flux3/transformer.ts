/**
 * The FLUX.3 diffusion transformer: blocks in which text, result and input images are each alone, then blocks for all together.
 * Source: Black Forest Labs 2026, FLUX.3; diffusers `Flux3Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  type Graph,
  layerNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  headProjections,
  type SINGLE_MODULATION,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import { linearLayer, linearLayers, packedGluLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import type { Flux3TransformerConfig } from "./config.ts";
import { modesOf, modulationVectors } from "./modulation.ts";

/** How far apart the rows and columns of an image are, as positions. */
const IMAGE_STEP = 0.5;

const BLOCKS = {
  txt: "txt_mode_blocks",
  image: "mode_blocks.image",
  image_cond: "mode_blocks.image_cond",
} as const;

interface Flux3Inputs {
  /** Prompt from {@linkcode flux3Context}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Normalised packed latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Packed latents of input images, one after the other, [1, their tokens, cond_in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  readonly referenceGrids: readonly TokenGrid[];
  /** One row of `modulationTable()`. */
  readonly modulation: Tensor;
  readonly ranks?: Ranks;
}

/** The prompt as the blocks take it, of the states of the text encoder, [1, text tokens, joint_attention_dim]. */
export function flux3Context(
  config: Flux3TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/** Predicts the velocity of the flow, of the tokens of the sample: [1, tokens, in_channels]. */
export function flux3Transformer(
  graph: Graph,
  config: Flux3TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, references, referenceGrids, modulation, ranks = ALONE }: Flux3Inputs,
): Tensor {
  const { num_layers: early, num_single_layers: joint, eps, in_channels } = config;
  const dim = hiddenSize(config);
  const modes = modesOf(references !== undefined);
  const vectors = modulationVectors(modulation, dim, modes);
  const given = references ? [context, sample, references] : [context, sample];
  const split = new TokenSplit(ranks.sequence, given.map((x) => x.dim(1)));
  const places = [
    Array.from({ length: context.dim(1) }, (_, place) => [0, 0, 0, place]),
    imagePositions(grid, 0),
    ...(references ? [referenceGrids.flatMap((grid, i) => imagePositions(grid, i + 1))] : []),
  ].map((tokens) => split.ownOf(tokens));
  const tables = (tokens: readonly number[][]) =>
    rotaryConstants(graph, "rope", tokens, config.axes_dims_rope, config.rope_theta);
  const layers = new LayerSplit(ranks.layers, [
    ...new Array<number>(early).fill(modes.length),
    ...new Array<number>(joint).fill(1),
  ]);
  let streams = given.map((x, i) =>
    i === 0 ? split.own(x) : linearLayer(weights, `x_embedders.${modes[i]}`, split.own(x), dim)
  );
  const alone = modes.map((mode, i) => ({
    name: BLOCKS[mode],
    rotary: tables(places[i]!),
    split: split.like([given[i]!.dim(1)]),
  }));
  for (let layer = 0; layer < early; layer++) {
    streams = layers.run(layer, streams, (streams) =>
      streams.map((x, i) => {
        const { name, rotary, split } = alone[i]!;
        return graph.scope(`${name}.${layer}`, () => {
          const block = weights.scope(name).scope(layer);
          return flux3Block(config, block, [x], [vectors.early[i]!], rotary, split)[0]!;
        });
      }));
  }
  const together = tables(places.flat());
  for (let layer = 0; layer < joint; layer++) {
    streams = layers.run(
      early + layer,
      streams,
      (streams) =>
        graph.scope(`single_transformer_blocks.${layer}`, () => {
          const block = weights.scope("single_transformer_blocks").scope(layer);
          return flux3Block(config, block, streams, vectors.joint, together, split);
        }),
    );
  }
  const tokens = sample.dim(1);
  const result = split.gatherFirst(
    streams[1]!,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, in_channels, {
        norm: { eps, ...vectors.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** x + gate · (attention + feed-forward), both of the modulated norm; the streams attend to each other. */
function flux3Block(
  config: Flux3TransformerConfig,
  weights: WeightScope,
  streams: readonly Tensor[],
  vectors: readonly Vectors<typeof SINGLE_MODULATION>[],
  rotary: Rotation,
  split: TokenSplit,
): Tensor[] {
  const { eps, mlp_ratio } = config;
  const dim = hiddenSize(config);
  const normed = streams.map((x, i) => {
    const { scale, shift } = vectors[i]!;
    return layerNorm(x, { eps, scale, shift });
  });
  const h = concat(normed, 1);
  const [attn, ff] = [weights.scope("attn"), weights.scope("ff")];
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], h, dim);
  const heads = headProjections(config, attn, ["norm_q", "norm_k"], joined, rotary);
  const attended = linearLayer(attn, "to_out.0", attend(heads, split), dim);
  const hidden = packedGluLayer(ff, "linear_in", h, mlp_ratio * dim, {
    activation: "silu",
    activated: "first",
  });
  const both = linearLayer(ff, "linear_out", hidden, dim, { residual: attended });
  let first = 0;
  return streams.map((x, i) => {
    const own = slice(both, 1, first, first += x.dim(1));
    return elementwise("x + g * y", { x, g: vectors[i]!.gate, y: own }, { name: "gated" });
  });
}

/** The result, image 0, lies at the place 0 in the text, input images before it, one after the other. */
function imagePositions({ rows, columns }: TokenGrid, image: number): number[][] {
  return Array.from({ length: rows * columns }, (_, i) => [
    0,
    IMAGE_STEP * Math.floor(i / columns),
    IMAGE_STEP * (i % columns),
    -image,
  ]);
}
