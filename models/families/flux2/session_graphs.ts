/** The programs of a session, one function each. */
import {
  concat,
  copyTo,
  gather,
  Graph,
  permute,
  slice,
  type Target,
  type Tensor,
} from "../../../runtime/mod.ts";
import {
  denormaliseTokens,
  normaliseTokens,
  packLatents,
  unpackLatents,
} from "../../autoencoders/kl/packing.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { qwen3Encoder } from "../../text_encoders/qwen3.ts";
import { type Flux2Components, TEXT_LAYERS } from "./components.ts";
import { hiddenSize } from "./config.ts";
import { modulationTable } from "./modulation.ts";
import type { SessionShape, SessionTensors } from "./session_tensors.ts";
import { flux2Context, flux2Transformer } from "./transformer.ts";

/** The text encoder, for all prompts at once. */
export function traceText(
  { textEncoder }: Flux2Components,
  { embeddings, lengths, states }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("text", target);
  const inputs = { embeddings: graph.use(embeddings), lengths: graph.use(lengths) };
  const { config, weights } = textEncoder;
  copyTo(concat(qwen3Encoder(graph, config, weights.root, inputs, TEXT_LAYERS), -1), states);
  return graph;
}

/** Given pictures, once they are encoded, as tokens: their most likely latents. */
export function traceReferences(
  { vae }: Flux2Components,
  { moments, references }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("references", target);
  const { config, weights } = vae;
  const tokens = moments.map((resident) => packLatents(posteriorMode(graph.use(resident))));
  copyTo(normaliseTokens(config, weights.root, concat(tokens, 1)), references[0]!);
  return graph;
}

/** What is the same for all steps: noise as tokens, prompts as tokens, timesteps as the blocks take them. */
export function traceBegin(
  { transformer }: Flux2Components,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("begin", target);
  const { config, weights } = transformer;
  const { latents, sample, states, contexts, timestepEmbeddings, modulation } = tensors;
  copyTo(permute(graph.use(latents), [0, 2, 3, 1]).reshape(...sample.shape), sample);
  const context = flux2Context(config, weights.root, graph.use(states));
  contexts.forEach((resident, pass) => copyTo(slice(context, 0, pass, pass + 1), resident));
  const embeddings = graph.use(timestepEmbeddings);
  copyTo(modulationTable(weights.root, embeddings, hiddenSize(config)), modulation);
  return graph;
}

/** One graph per pass. */
export function traceDenoise(
  { transformer }: Flux2Components,
  shape: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Record<string, Graph> {
  const { config, weights } = transformer;
  const { operands = target.operands, grid, references: referenceGrids } = shape;
  const graphs: Record<string, Graph> = {};
  tensors.velocities.forEach((velocity, pass) => {
    const graph = new Graph(`denoise${pass}`, { ...target, operands });
    const [references] = tensors.references;
    const result = flux2Transformer(graph, config, weights.root, {
      context: graph.use(tensors.contexts[pass]!),
      sample: graph.use(tensors.sample),
      grid,
      references: references && graph.use(references),
      referenceGrids,
      modulation: gather(graph.use(tensors.modulation), graph.use(tensors.step)),
    });
    copyTo(result, velocity);
    graphs[graph.name] = graph;
  });
  return graphs;
}

/** The sample as latents, for the caller and for the decoder. */
export function traceFinish(
  components: Flux2Components,
  shape: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("finish", target);
  const { rows, columns } = shape.grid;
  const sample = graph.use(tensors.sample);
  copyTo(permute(sample.reshape(1, rows, columns, -1), [0, 3, 1, 2]), tensors.latents);
  copyTo(latentsOf(components, shape, sample), tensors.decoded);
  return graph;
}

/** Tokens as the decoder takes them, [height/s, width/s, latent_channels]. */
export function latentsOf(
  { vae }: Flux2Components,
  { grid }: SessionShape,
  tokens: Tensor,
): Tensor {
  const latents = unpackLatents(
    denormaliseTokens(vae.config, vae.weights.root, tokens),
    grid.rows,
  );
  return latents.reshape(...latents.shape.slice(1));
}
