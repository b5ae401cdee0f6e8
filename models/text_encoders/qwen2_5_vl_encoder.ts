/**
 * Qwen2.5-VL for pipelines whose prompts show images: what the vision tower makes of them takes the places of
 * placeholders, and positions have a time, a row and a column.
 *
 * Source: transformers `Qwen2_5_VLModel`, `get_rope_index`.
 */
import { concat, type DeviceTensor, f32, gather, u32 } from "../../runtime/mod.ts";
import { PATCHES_PER_SIDE, type PatchGrid, tokensOf } from "../image_encoders/qwen2_5_patches.ts";
import { qwenEmbeddings, qwenEncoder } from "./qwen.ts";
import type { Qwen25VlConfig } from "./qwen2_5_vl.ts";
import type { TextEncoder, TextEncoderParts } from "./text_encoder.ts";

interface SeenImages {
  /** Tokens of all images, one after the other, [tokens, hidden_size]. */
  readonly states: DeviceTensor;
  readonly grids: readonly PatchGrid[];
  /** What stands in a prompt for one of the tokens. */
  readonly placeholder: number;
}

export function qwen25VlTextEncoder(
  { config, weights }: TextEncoderParts<Qwen25VlConfig>,
  padId: number,
  { states, grids, placeholder }: SeenImages,
): TextEncoder {
  const { hidden_size: dim, head_dim: headDim, num_hidden_layers: layers } = config;
  return {
    inputs: (prompts, rows) => ({
      ...{ embeddings: f32(prompts, rows, dim), lengths: u32(prompts), seen: states },
      // Where each row comes from: the embeddings, and behind them the images' tokens.
      sources: u32(prompts, rows),
      ...{ cos: f32(rows, headDim / 2), sin: f32(rows, headDim / 2) },
    }),
    trace: ({ embeddings, lengths, seen, sources, cos, sin }, graph) => {
      const rows = concat([embeddings!.reshape(-1, dim), seen!], 0);
      const inputs = {
        embeddings: gather(rows, sources!).reshape(...embeddings!.shape),
        lengths: lengths!,
        rotary: { cos: cos!, sin: sin! },
      };
      return qwenEncoder(graph, config, weights.root, inputs, [layers])[0]!;
    },
    values: (tokens, rows) => {
      const padded = tokens.map((own) => [
        ...own,
        ...new Array<number>(rows - own.length).fill(padId),
      ]);
      const longest = padded[tokens.findIndex(({ length }) => length === rows)] ?? padded[0]!;
      const count = grids.reduce((sum, grid) => sum + tokensOf(grid), 0);
      const own = rows * tokens.length;
      return {
        embeddings: qwenEmbeddings(config, weights, padded.flat()),
        lengths: tokens.map(({ length }) => length),
        sources: padded.flatMap((ids, prompt) => {
          let place = 0;
          return ids.map((id, i) =>
            id === placeholder && place < count ? own + place++ : prompt * rows + i
          );
        }),
        ...mropeTables(mropePositions(longest, grids, placeholder), config),
      };
    },
  };
}

/** Time, row and column of every token: those of an image begin where the text before it ends. */
function mropePositions(
  ids: readonly number[],
  grids: readonly PatchGrid[],
  placeholder: number,
): number[][] {
  const positions: number[][] = [];
  let next = 0;
  let image = 0;
  while (positions.length < ids.length) {
    const grid = ids[positions.length] === placeholder ? grids[image] : undefined;
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

/** Pairs of a head take the frequencies in order, and one axis after the other. */
function mropeTables(
  positions: readonly (readonly number[])[],
  { head_dim: dim, rope_theta: theta, mrope_section: section }: Qwen25VlConfig,
): { cos: Float32Array; sin: Float32Array } {
  const axes = section.flatMap((pairs, axis) => new Array<number>(pairs).fill(axis));
  const angles = positions.flatMap((position) =>
    axes.map((axis, j) => position[axis]! * theta ** (-2 * j / dim))
  );
  return { cos: Float32Array.from(angles, Math.cos), sin: Float32Array.from(angles, Math.sin) };
}
