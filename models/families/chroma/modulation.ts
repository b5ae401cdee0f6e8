/**
 * A small network gives every vector of every block by its number, where FLUX.1 has a layer in every block.
 * Source: diffusers `ChromaCombinedTimestepTextProjEmbeddings` and `ChromaApproximator`.
 */
import {
  elementwise,
  gather,
  type Graph,
  rmsNorm,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { DOUBLE_MODULATION, SINGLE_MODULATION, takeVectors } from "../../blocks/double_stream.ts";
import { timestepEmbedding } from "../../blocks/embeddings.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import type { Modulation } from "../flux1/modulation.ts";
import type { ChromaTransformerConfig } from "./config.ts";
import { hiddenSize } from "../../config.ts";

const NUMBER_SCALE = 1000;
/** Epsilon of the norms: torch's where nothing is said. */
const EPS = 2 ** -23;
/** Vectors of the last norm, which FLUX.1's files have the other way round. */
const OUT = ["shift", "scale"] as const;

function vectorCount({ num_layers, num_single_layers }: ChromaTransformerConfig): number {
  return SINGLE_MODULATION.length * num_single_layers +
    2 * DOUBLE_MODULATION.length * num_layers + OUT.length;
}

/** The vectors of one timestep, u32 [1]. */
export function chromaModulation(
  graph: Graph,
  config: ChromaTransformerConfig,
  weights: WeightScope,
  timesteps: readonly number[],
  step: Tensor,
): Modulation {
  const { approximator_num_channels: channels, approximator_hidden_dim: hidden } = config;
  const [dim, count] = [hiddenSize(config), vectorCount(config)];
  const table = graph.constant(
    "approximated",
    [timesteps.length, count * channels],
    "f32",
    () => approximatorInputs(timesteps, count, channels),
  );
  const network = weights.scope("distilled_guidance_layer");
  let x = linearLayer(network, "in_proj", gather(table, step).reshape(count, channels), hidden);
  for (let layer = 0; layer < config.approximator_layers; layer++) {
    const weight = network.scope("norms").scope(layer).tensor(graph, "weight", [hidden]);
    const y = embeddingLayers(
      network.scope("layers").scope(layer),
      rmsNorm(x, { weight, eps: EPS, name: `norms.${layer}` }),
      hidden,
    );
    x = elementwise("x + y", { x, y });
  }
  const vectors = linearLayer(network, "out_proj", x, dim);
  const take = takeVectors(vectors.reshape(count, 1, dim));
  const each = <T>(length: number, of: () => T) => Array.from({ length }, of);
  const single = each(config.num_single_layers, () => take(SINGLE_MODULATION));
  const image = each(config.num_layers, () => take(DOUBLE_MODULATION));
  const text = each(config.num_layers, () => take(DOUBLE_MODULATION));
  return {
    single,
    double: image.map((own, i) => ({ image: own, text: text[i]! })),
    out: take(OUT),
  };
}

/** Inputs for every timestep and vector: the timestep, a guidance of 0 and the vector's number, embedded. */
function approximatorInputs(
  timesteps: readonly number[],
  count: number,
  channels: number,
): Float32Array<ArrayBuffer> {
  const quarter = channels / 4;
  const times = timestepEmbedding(timesteps, quarter);
  const guidance = timestepEmbedding([0], quarter);
  const numbers = timestepEmbedding(
    Array.from({ length: count }, (_, i) => i * NUMBER_SCALE),
    2 * quarter,
  );
  const result = new Float32Array(timesteps.length * count * channels);
  for (let i = 0, at = 0; i < timesteps.length; i++) {
    const time = times.subarray(i * quarter, (i + 1) * quarter);
    for (let vector = 0; vector < count; vector++, at += channels) {
      result.set(time, at);
      result.set(guidance, at + quarter);
      const first = vector * 2 * quarter;
      result.set(numbers.subarray(first, first + 2 * quarter), at + 2 * quarter);
    }
  }
  return result;
}
