/** Qwen's language models with images in their prompts. Source: transformers `Qwen2_5_VLModel` and `Qwen3VLModel`, `get_rope_index`. */
import { concat, type DeviceTensor, f32, gather, type Tensor, u32 } from "../../runtime/mod.ts";
import { PATCHES_PER_SIDE, type PatchGrid, tokensOf } from "../image_encoders/qwen2_5_vision.ts";
import { type QwenConfig, qwenEncoder, tokenEmbeddings } from "./qwen.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import { padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

/** What stands in a prompt for each token of an image. */
export const IMAGE_TOKEN = "<|image_pad|>";

interface SeenImages {
  /** Tokens of all images, one after the other, [tokens, hidden_size]. */
  readonly states: DeviceTensor;
  readonly grids: readonly PatchGrid[];
  /** The axis whose positions turn each pair of a head: place, row, column. */
  readonly axes: readonly number[];
  /** What is added to the images' tokens after the first layers, one of the shape of `states` each. */
  readonly deepstack?: readonly DeviceTensor[];
}

export interface SeeingOptions {
  /** The layers whose states are given, side by side; the last one by default. */
  readonly layers?: readonly number[];
  /** Whether the last state is taken before the final norm. */
  readonly isRaw?: boolean;
}

/** The encoder of prompts that show images: the vision tower's states take the places of the prompt's image tokens. */
export function seeingQwenEncoder(
  { config, weights }: TextEncoderParts<QwenConfig>,
  tokenizer: Tokenizer,
  { states, grids, axes, deepstack = [] }: SeenImages,
  { layers = [config.num_hidden_layers], isRaw = false }: SeeingOptions = {},
): TextEncoder {
  const { hidden_size: dim, head_dim: headDim } = config;
  const [imageToken, ...more] = tokenizer.encode(IMAGE_TOKEN);
  if (imageToken === undefined || more.length > 0) {
    throw new SyntaxError(
      `Cannot show images: the tokenizer has no token "${IMAGE_TOKEN}"; fetch the tokenizer of the model again`,
    );
  }
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, dim),
      lengths: u32(prompts),
      seen: states,
      // Where each row comes from: the embeddings, and behind them the images' tokens.
      sources: u32(prompts, rows),
      cos: f32(rows, headDim / 2),
      sin: f32(rows, headDim / 2),
      ...(deepstack.length > 0 && { places: u32(prompts, rows) }),
      ...Object.fromEntries(deepstack.map((features, i) => [`deepstack${i}`, features])),
    }),
    trace: ({ embeddings, lengths, seen, sources, cos, sin, places, ...own }, graph) => {
      const rows = concat([embeddings!.reshape(-1, dim), seen!], 0);
      const inputs = {
        embeddings: gather(rows, sources!).reshape(...embeddings!.shape),
        lengths: lengths!,
        rotary: { cos: cos!, sin: sin! },
        isRaw,
        after: (x: Tensor, layer: number) => {
          const features = own[`deepstack${layer}`];
          if (!features) return x;
          const nothing = graph.constant("nothing", [1, dim], "f32", new Float32Array(dim));
          return gather(concat([nothing, features], 0), places!, { addend: x });
        },
      };
      return concat(qwenEncoder(graph, config, weights.root, inputs, layers), -1);
    },
    values: (tokens, rows) => {
      const filled = padded(tokens, rows, tokenizer.padId);
      const longest = filled[tokens.findIndex(({ length }) => length === rows)] ?? filled[0]!;
      const count = grids.reduce((sum, grid) => sum + tokensOf(grid), 0);
      const own = rows * tokens.length;
      // Of each row the number of its image token, from 1 on; 0 for text.
      const places = filled.flatMap((ids) => {
        let place = 0;
        return ids.map((id) => (id === imageToken && place < count ? ++place : 0));
      });
      return {
        embeddings: tokenEmbeddings(config, weights, filled.flat()),
        lengths: tokens.map(({ length }) => length),
        sources: places.map((place, i) => (place > 0 ? own + place - 1 : i)),
        ...(deepstack.length > 0 && { places }),
        ...mropeTables(mropePositions(longest, grids, imageToken), config, axes),
      };
    },
  };
}

function mropePositions(
  ids: readonly number[],
  grids: readonly PatchGrid[],
  imageToken: number,
): number[][] {
  const positions: number[][] = [];
  let next = 0;
  let image = 0;
  while (positions.length < ids.length) {
    const grid = ids[positions.length] === imageToken ? grids[image] : undefined;
    if (!grid) {
      positions.push([next, next, next]);
      next++;
      continue;
    }
    const [rows, columns] = [grid.rows / PATCHES_PER_SIDE, grid.columns / PATCHES_PER_SIDE];
    for (let i = 0; i < rows * columns; i++) {
      positions.push([next, next + Math.floor(i / columns), next + i % columns]);
    }
    next += Math.max(rows, columns);
    image++;
  }
  return positions;
}

function mropeTables(
  positions: readonly (readonly number[])[],
  { head_dim: dim, rope_theta: theta }: QwenConfig,
  axes: readonly number[],
): { cos: Float32Array; sin: Float32Array } {
  const angles = positions.flatMap((position) =>
    axes.map((axis, j) => position[axis]! * theta ** (-2 * j / dim))
  );
  return { cos: Float32Array.from(angles, Math.cos), sin: Float32Array.from(angles, Math.sin) };
}
