/** The Wan transformer as one program, fed as the goldens say. */
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import type { WanTransformerConfig } from "../../models/families/wan/config.ts";
import {
  modulationIndices,
  tableRows,
  timestepRows,
} from "../../models/families/wan/modulation.ts";
import { patchify, tokenGrid, unpatchify } from "../../models/families/wan/patches.ts";
import { wanImageStates, wanTextStates } from "../../models/families/wan/context.ts";
import { wanTransformer } from "../../models/families/wan/transformer.ts";
import { type Graph, permute, type Tensor, type Weights } from "../../runtime/mod.ts";
import type { Golden, GoldenCall } from "../support/golden.ts";
import type { InputValues } from "../support/model_run.ts";

/** `collapsed`: one row stands for all pads, as the pipeline does it. `whole`: every pad row is there. */
type ContextKind = "collapsed" | "whole";

/** The prompt's rows, how many are attended, and the logit of the last. */
export function contextOf(
  golden: Golden,
  call: GoldenCall,
  kind: ContextKind,
): Record<string, InputValues> {
  const rows = golden.tensor(call.name, "context_rows");
  const [batch, stored, dim] = rows.shape as [number, number, number];
  const length = call.args["context_length"] as number;
  const real = call.args["context_real_rows"] as number[];
  const lengths = real.map((count) => (kind === "whole" ? length : Math.min(length, count + 1)));
  const tokens = Math.max(...lengths);
  const text = new Float32Array(batch * tokens * dim);
  for (let b = 0; b < batch; b++) {
    for (let i = 0; i < stored * dim; i++) {
      text[b * tokens * dim + i] = rows.data[b * stored * dim + i]!;
    }
  }
  const isCollapsed = (count: number) => kind === "collapsed" && count < length;
  const logits = real.map((count) => (isCollapsed(count) ? Math.log(length - count) : 0));
  return {
    text: { shape: [batch, tokens, dim], data: text },
    lengths: { shape: [batch], data: lengths, dtype: "u32" },
    padLogit: { shape: [batch], data: logits },
  };
}

/** Embeddings of the distinct timesteps and, where tokens have their own, the row of each. */
export function timestepsOf(
  golden: Golden,
  call: GoldenCall,
  config: WanTransformerConfig,
): Record<string, InputValues> {
  const { shape, data } = golden.tensor(call.name, "timestep");
  const values = Array.from(data);
  const distinct = shape.length === 1 ? values : [...new Set(values)];
  const timestep = {
    shape: [distinct.length, config.freq_dim],
    data: timestepEmbedding(distinct, config.freq_dim),
  };
  if (shape.length === 1) return { timestep };
  const rows = values.map((value) => distinct.indexOf(value));
  return {
    timestep,
    rows: { shape: shape[0] === 1 ? shape.slice(1) : shape, data: rows, dtype: "u32" },
  };
}

/** Prompt and latents to the velocity, laid out as the reference gives it. */
export function velocityGraph(
  graph: Graph,
  config: WanTransformerConfig,
  weights: Weights,
  given: Readonly<Record<string, Tensor>>,
): Tensor {
  const latents = given["latents"]!;
  const grid = tokenGrid(config, latents.shape);
  const dim = config.num_attention_heads * config.attention_head_dim;
  const distinct = Array.from({ length: given["timestep"]!.dim(0) }, (_, i) => i);
  const indices = modulationIndices(config, distinct);
  const shape = [tableRows(config), distinct.length];
  const { image_states: states, control, control_scale: scales } = given;
  const images = states && wanImageStates(config, weights.root, states);
  const velocity = wanTransformer(graph, config, weights.root, {
    tokens: patchify(config, latents),
    grid,
    timesteps: timestepRows(weights.root, given["timestep"]!, dim),
    modulationIndices: graph.constant("indices", shape, "u32", indices),
    ...(given["rows"] && { tokenTimesteps: given["rows"] }),
    ...(control && {
      control: { tokens: patchify(config, control), scales: scales!.reshape(1, 1, -1) },
    }),
    context: {
      blocks: wanTextStates(config, weights.root, given["text"]!),
      images,
      lengths: given["lengths"]!,
      padLogit: given["padLogit"]!,
    },
  });
  return permute(unpatchify(config, velocity, grid), [0, 4, 1, 2, 3]);
}
