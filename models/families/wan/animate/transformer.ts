/**
 * Wan-Animate-2: Wan 2.1 I2V whose frames also attend to the frame of the driving video that they follow, to its keys and
 * values in the same block, where it is at timestep 1. The first latent frame is the character's image, which follows none.
 * Source: diffusers `WanAnimate2Transformer3DModel`, of which `extract` is here {@linkcode drivingStates}.
 */
import {
  attention,
  concat,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../../runtime/mod.ts";
import type { GridOrigin, TokenGrid } from "../patches.ts";
import { type WanInputs, wanPass } from "../transformer.ts";
import type { AnimateTransformerConfig } from "./config.ts";

export const DRIVING_TIMESTEP = 1;

export const NEGATIVE_SKIPS: readonly number[] = [9];

/** Keys, at their positions, and values of the driving video in one block, each [1, tokens, heads, headDim]. */
export interface DrivingState<T = Tensor> {
  readonly key: T;
  readonly value: T;
}

type PassInputs = Omit<WanInputs, "origin" | "control" | "ranks" | "riflex">;

function drivingOrigin(config: AnimateTransformerConfig, grid: TokenGrid): GridOrigin {
  const from = (offset: number, size: number) => offset < 0 ? size : offset;
  return {
    frame: from(config.refer_offset_t, grid.frames),
    row: from(config.refer_offset_h, grid.height),
    column: from(config.refer_offset_w, grid.width),
    stride: config.refer_stride,
  };
}

/** Goes through the next block, `use` first; of the last only what others attend to is computed. */
type Through = <T>(layer: number, use: (state: DrivingState) => T) => T;

function drivingPass(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: WeightScope,
  inputs: PassInputs,
): Through {
  const origin = drivingOrigin(config, inputs.grid);
  const pass = wanPass(graph, config, weights, { ...inputs, origin });
  let x = pass.embedded;
  return (layer, use) =>
    graph.scope(`driving ${layer}`, () => {
      if (layer === config.num_layers - 1) return use(pass.keysAndValues(layer, x));
      let used: ReturnType<typeof use>;
      x = pass.block(layer, x, (queries, key, value) => {
        used = use({ key, value });
        return pass.split.attention(queries, key, value, { name: "attn1" });
      });
      return used!;
    });
}

export function drivingStates<T>(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: WeightScope,
  inputs: PassInputs,
  use: (state: DrivingState, layer: number) => T,
): T[] {
  const through = drivingPass(graph, config, weights, inputs);
  return Array.from(
    { length: config.num_layers },
    (_, layer) => through(layer, (state) => use(state, layer)),
  );
}

/** The velocity, [1, tokens, features]; `driving` is what {@linkcode drivingStates} gave, or its inputs, to compute it again. */
export function animateTransformer(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: WeightScope,
  inputs: PassInputs,
  driving: readonly DrivingState[] | PassInputs,
): Tensor {
  const { embedded, block, head } = wanPass(graph, config, weights, inputs);
  const anew = "tokens" in driving ? drivingPass(graph, config, weights, driving) : undefined;
  const last = config.num_layers - 1;
  const kept = "tokens" in driving ? [] : driving;
  const count = kept.length / config.num_layers;
  let x = embedded;
  for (let layer = 0; layer <= last; layer++) {
    const isSkipped = inputs.skipped?.includes(layer) ?? false;
    // Nobody looks at what comes out of the last block.
    const states = anew && !(isSkipped && layer === last)
      ? anew(layer, (state) => [state])
      : kept.slice(layer * count, (layer + 1) * count);
    if (isSkipped) continue;
    x = graph.scope(
      `blocks.${layer}`,
      () => block(layer, x, (q, k, v) => attendFrames(inputs.grid, [q, k, v], states)),
    );
  }
  return head(x);
}

function attendFrames(
  { frames, height, width }: TokenGrid,
  [queries, keys, values]: readonly [Tensor, Tensor, Tensor],
  states: readonly DrivingState[],
): Tensor {
  const size = height * width;
  const frameOf = (x: Tensor, frame: number) => slice(x, 1, frame * size, (frame + 1) * size);
  const stateOf = (frame: number): DrivingState => {
    if (states.length > 1) return states[frame]!;
    const { key, value } = states[0]!;
    return { key: frameOf(key, frame), value: frameOf(value, frame) };
  };
  const attended = Array.from({ length: frames }, (_, frame) => {
    const own = frameOf(queries, frame);
    if (frame === 0) return attention(own, keys, values, { name: "attn1" });
    const { key, value } = stateOf(frame - 1);
    const seen = [concat([keys, key], 1), concat([values, value], 1)] as const;
    return attention(own, ...seen, { name: "attn1" });
  });
  return concat(attended, 1);
}
