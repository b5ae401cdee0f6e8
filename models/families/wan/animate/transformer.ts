/**
 * The transformer of Wan-Animate-2: that of Wan 2.1 I2V, whose tokens also attend to those of the driving video.
 *
 * The driving video goes through the same blocks at timestep 1, attending to itself alone. Every frame of the result
 * attends to all frames of the result, and to the frame of the driving video that it follows: to its keys and values in
 * the same block. The first latent frame is the character's image, which follows none.
 *
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

/** The timestep that the driving video is seen at. */
export const DRIVING_TIMESTEP = 1;

/** The block that a pass for a negative prompt leaves out. */
export const NEGATIVE_SKIPS: readonly number[] = [9];

/** Keys, at their positions, and values of the driving video in one block, each [1, tokens, heads, headDim]. */
export interface DrivingState {
  readonly key: Tensor;
  readonly value: Tensor;
}

/** What a pass takes. */
type PassInputs = Omit<WanInputs, "origin" | "control" | "ranks" | "riflex">;

/** Where the driving video begins among the positions: beside the result, one frame later. */
function drivingOrigin(config: AnimateTransformerConfig, grid: TokenGrid): GridOrigin {
  const from = (offset: number, size: number) => offset < 0 ? size : offset;
  return {
    frame: from(config.refer_offset_t, grid.frames),
    row: from(config.refer_offset_h, grid.height),
    column: from(config.refer_offset_w, grid.width),
    stride: config.refer_stride,
  };
}

/** The driving video on its way through the blocks. */
class DrivingPass {
  readonly #pass: ReturnType<typeof wanPass>;
  #x: Tensor;

  constructor(
    graph: Graph,
    config: AnimateTransformerConfig,
    weights: WeightScope,
    inputs: PassInputs,
  ) {
    const origin = drivingOrigin(config, inputs.grid);
    this.#pass = wanPass(graph, config, weights, { ...inputs, origin });
    this.#x = this.#pass.embedded;
  }

  /** Goes through a block, the next one; of the last only what others attend to is computed. */
  through(layer: number, isLast: boolean): DrivingState {
    const { block, keysAndValues, split } = this.#pass;
    if (isLast) return keysAndValues(layer, this.#x);
    let state: DrivingState;
    this.#x = block(layer, this.#x, (queries, key, value) => {
      state = { key, value };
      return split.attention(queries, key, value, { name: "attn1" });
    });
    return state!;
  }
}

/** What each block has for the frames of the result to attend to. */
export function drivingStates(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: WeightScope,
  inputs: PassInputs,
): DrivingState[] {
  const pass = new DrivingPass(graph, config, weights, inputs);
  const last = config.num_layers - 1;
  return Array.from(
    { length: config.num_layers },
    (_, layer) => graph.scope(`driving ${layer}`, () => pass.through(layer, layer === last)),
  );
}

/**
 * Predicts the velocity of the flow.
 *
 * @param driving what {@linkcode drivingStates} gave, or what it would be given: it is computed anew, block by block, then
 * @returns patches as the tokens are, [1, tokens, features]
 */
export function animateTransformer(
  graph: Graph,
  config: AnimateTransformerConfig,
  weights: WeightScope,
  inputs: PassInputs,
  driving: readonly DrivingState[] | PassInputs,
): Tensor {
  const { embedded, block, head } = wanPass(graph, config, weights, inputs);
  const anew = "tokens" in driving ? new DrivingPass(graph, config, weights, driving) : undefined;
  const last = config.num_layers - 1;
  let x = embedded;
  for (let layer = 0; layer <= last; layer++) {
    const isSkipped = inputs.skipped?.includes(layer) ?? false;
    const state = anew
      // Nobody looks at what comes out of the last block.
      ? isSkipped && layer === last
        ? undefined
        : graph.scope(`driving ${layer}`, () => anew.through(layer, layer === last))
      : (driving as readonly DrivingState[])[layer];
    if (isSkipped) continue;
    x = graph.scope(
      `blocks.${layer}`,
      () => block(layer, x, (q, k, v) => attendFrames(inputs.grid, [q, k, v], state!)),
    );
  }
  return head(x);
}

/** Attention of each frame to all frames, and to the frame of the driving video that it follows. */
function attendFrames(
  { frames, height, width }: TokenGrid,
  [queries, keys, values]: readonly [Tensor, Tensor, Tensor],
  { key, value }: DrivingState,
): Tensor {
  const size = height * width;
  const frameOf = (x: Tensor, frame: number) => slice(x, 1, frame * size, (frame + 1) * size);
  const attended = Array.from({ length: frames }, (_, frame) => {
    const own = frameOf(queries, frame);
    const seen = [[keys, key], [values, value]].map(([all, driving]) =>
      frame === 0 ? all! : concat([all!, frameOf(driving!, frame - 1)], 1)
    );
    return attention(own, seen[0]!, seen[1]!, { name: "attn1" });
  });
  return concat(attended, 1);
}
