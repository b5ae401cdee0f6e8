/** The programs of a session, one function each. */
import {
  copyTo,
  elementwise,
  gather,
  Graph,
  permute,
  slice,
  type Target,
  type Tensor,
} from "../../../runtime/mod.ts";
import { posteriorSample, scaleLatents, unscaleLatents } from "../../autoencoders/kl/posterior.ts";
import { qwen3Encoder } from "../../text_encoders/qwen3.ts";
import type { ZImageComponents } from "./components.ts";
import { limitedGuidance } from "./guidance.ts";
import { modulationTable } from "./modulation.ts";
import { patchify, unpatchify, unpatchifyLast } from "./patches.ts";
import type { SessionShape, SessionTensors } from "./session_tensors.ts";
import { zImageContext, zImageTransformer } from "./transformer.ts";

/** The text encoder, for all prompts at once: the states before its last layer. */
export function traceText(
  { textEncoder: { config, weights } }: ZImageComponents,
  { textTokens }: SessionShape,
  { embeddings, lengths, states }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("text", target);
  const inputs = { embeddings: graph.use(embeddings), lengths: graph.use(lengths) };
  const layers = [config.num_hidden_layers - 1];
  const [all] = qwen3Encoder(graph, config, weights.root, inputs, layers);
  states.forEach((resident, pass) => {
    const rows = slice(all!, 0, pass, pass + 1);
    copyTo(slice(rows, 1, 0, textTokens[pass]!), resident);
  });
  return graph;
}

/** What the transformer makes of the prompts alone. */
export function traceContext(
  { transformer: { config, weights } }: ZImageComponents,
  { states, masks, contexts }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("context", target);
  contexts.forEach((resident, pass) => {
    const [state, mask] = [graph.use(states[pass]!), graph.use(masks[pass]!)];
    graph.scope(`prompt ${pass}`, () => {
      copyTo(zImageContext(graph, config, weights.root, state, mask), resident);
    });
  });
  return graph;
}

/** What is the same for all steps: where they start from, and timesteps as the blocks take them. */
export function traceBegin(
  { transformer: { config, weights }, vae }: ZImageComponents,
  { startsFromPicture }: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("begin", target);
  const noise = graph.use(tensors.latents);
  const start = () => {
    const momentNoise = permute(graph.use(tensors.momentNoise), [0, 2, 3, 1]);
    const drawn = posteriorSample(graph.use(tensors.moments), momentNoise);
    return elementwise("(1.0 - sigma) * x + sigma * noise", {
      x: permute(scaleLatents(vae.config, drawn), [0, 3, 1, 2]),
      noise,
      sigma: graph.use(tensors.sigma),
    });
  };
  copyTo(patchify(startsFromPicture ? start() : noise), tensors.sample);
  const embeddings = graph.use(tensors.timestepEmbeddings);
  copyTo(modulationTable(config, weights.root, embeddings), tensors.modulation);
  return graph;
}

/** One graph per pass, and those that make one output of them where its length is limited. */
export function traceDenoise(
  { transformer: { config, weights } }: ZImageComponents,
  { grid, limitsGuidance, operands }: SessionShape,
  { contexts, outputs, sample, modulation, step, guidance, guided }: SessionTensors,
  target: Target,
): Record<string, Graph> {
  const graphs: Record<string, Graph> = {};
  outputs.forEach((output, pass) => {
    const graph = new Graph(`denoise${pass}`, { ...target, ...(operands && { operands }) });
    const result = zImageTransformer(graph, config, weights.root, {
      context: graph.use(contexts[pass]!),
      sample: graph.use(sample),
      grid,
      modulation: gather(graph.use(modulation), graph.use(step)),
    });
    copyTo(result, output);
    graphs[graph.name] = graph;
  });
  if (!limitsGuidance) return graphs;
  const guide = graphs["guide"] = new Graph("guide", target);
  const [positive, negative] = outputs.map((output) => guide.use(output));
  copyTo(limitedGuidance(positive!, negative!, guide.use(guidance)), guided);
  const unguided = graphs["unguided"] = new Graph("unguided", target);
  copyTo(unguided.use(outputs[0]!), guided);
  return graphs;
}

/** The sample as latents, for the caller and for the decoder. */
export function traceFinish(
  components: ZImageComponents,
  shape: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("finish", target);
  const sample = graph.use(tensors.sample);
  copyTo(unpatchify(sample, shape.grid), tensors.latents);
  copyTo(latentsOf(components, shape, sample), tensors.decoded);
  return graph;
}

/** Patches as the decoder takes them, [height/s, width/s, channels]. */
export function latentsOf(
  { vae }: ZImageComponents,
  { grid }: SessionShape,
  patches: Tensor,
): Tensor {
  return unscaleLatents(vae.config, unpatchifyLast(patches, grid));
}
