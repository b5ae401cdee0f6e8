/** The transformer of Wan-Animate-2 as one program, fed as the goldens say. */
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import type { AnimateTransformerConfig } from "../../models/families/wan/animate/config.ts";
import {
  animateTransformer,
  DRIVING_TIMESTEP,
  drivingStates,
  NEGATIVE_SKIPS,
} from "../../models/families/wan/animate/transformer.ts";
import { wanImageStates, wanTextStates } from "../../models/families/wan/context.ts";
import {
  modulationIndices,
  tableRows,
  timestepRows,
} from "../../models/families/wan/modulation.ts";
import { patchify, tokenGrid, unpatchify } from "../../models/families/wan/patches.ts";
import { concat, type Graph, permute, type Tensor, type Weights } from "../../runtime/mod.ts";
import type { Golden, GoldenCall, Values } from "../support/golden.ts";
import type { InputValues } from "../support/model_run.ts";

/** What a call passes, and the distinct timesteps. */
export function animateInputs(
  golden: Golden,
  call: GoldenCall,
  config: AnimateTransformerConfig,
): Record<string, InputValues> {
  const tensor = (name: string) => golden.tensor(call.name, name);
  const batched = ({ shape, data }: Values) => ({ shape: [1, ...shape], data });
  const times = [...Array.from(tensor("timestep").data), DRIVING_TIMESTEP];
  const timesteps = timestepEmbedding(times, config.freq_dim);
  const padded = (name: string) => {
    const { shape: [, rows, width], data } = tensor(name) as
      & { shape: [1, number, number] }
      & Values;
    const values = new Float32Array((rows + 1) * width);
    values.set(Array.from(data));
    return {
      text: { shape: [1, rows + 1, width], data: values },
      lengths: { shape: [1], data: [rows + 1], dtype: "u32" as const },
      padLogit: { shape: [1], data: [Math.log(config.text_len - rows)] },
    };
  };
  const [own, driving] = [padded("context_rows"), padded("driving_rows")];
  return {
    ...own,
    drivingText: driving.text,
    drivingLengths: driving.lengths,
    drivingPadLogit: driving.padLogit,
    timesteps: { shape: [times.length, config.freq_dim], data: timesteps },
    latents: batched(tensor("hidden_states")),
    condition: batched(tensor("condition")),
    driving: batched(tensor("driving")),
    drivingCondition: batched(tensor("driving_condition")),
    images: tensor("image_states"),
    drivingImages: tensor("driving_states"),
  };
}

/** The velocity, laid out as the reference gives it. */
export function animateVelocity(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: Weights,
  given: Readonly<Record<string, Tensor>>,
  { isNegative, isAnew }: { readonly isNegative: boolean; readonly isAnew: boolean },
): Tensor {
  const { root } = weights;
  const dim = config.num_attention_heads * config.attention_head_dim;
  const timesteps = timestepRows(root, given["timesteps"]!, dim);
  const pass = (prefix: "" | "driving", index: number) => {
    const own = (name: string) =>
      given[prefix ? prefix + name[0]!.toUpperCase() + name.slice(1) : name]!;
    const latents = prefix ? given["driving"]! : given["latents"]!;
    const indices = modulationIndices(config, [index]);
    return {
      tokens: patchify(config, concat([latents, own("condition")], 1)),
      grid: tokenGrid(config, latents.shape),
      timesteps,
      modulationIndices: graph.constant(
        `${prefix} indices`,
        [tableRows(config), 1],
        "u32",
        indices,
      ),
      context: {
        blocks: wanTextStates(config, root, own("text")),
        images: wanImageStates(config, root, own("images")),
        lengths: own("lengths"),
        padLogit: own("padLogit"),
      },
    };
  };
  const [inputs, driving] = [pass("", 0), pass("driving", 1)];
  const velocity = animateTransformer(
    graph,
    config,
    root,
    { ...inputs, ...(isNegative && { skipped: NEGATIVE_SKIPS }) },
    isAnew ? driving : drivingStates(graph, config, root, driving, (state) => state),
  );
  return permute(unpatchify(config, velocity, inputs.grid), [0, 4, 1, 2, 3]);
}
