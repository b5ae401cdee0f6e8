/**
 * Qwen3-VL's vision tower: every patch attends to all; a merger makes a token of 2 by 2 patches, and so do others of what
 * comes out of some earlier layers (deepstack), for the first layers of the language model.
 * Source: Qwen team 2025, "Qwen3-VL Technical Report"; transformers `Qwen3VLVisionModel`, `Qwen2VLImageProcessor` and
 * `get_vision_interpolation_indices_and_weights`.
 */
import { z } from "zod";
import {
  attention,
  elementwise,
  gather,
  type Graph,
  layerNorm,
  rope,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../runtime/mod.ts";
import type { RgbImage } from "../../media/image.ts";
import { rotaryConstants } from "../blocks/embeddings.ts";
import { linearLayer } from "../blocks/layers.ts";
import { headFits, refuse } from "../config.ts";
import {
  embeddedPatches,
  FRAMES,
  PATCHES_PER_SIDE,
  patchesOf,
  type PatchGrid,
  type PatchLayout,
  patchLayout,
} from "./qwen2_5_vision.ts";

const EPS = 1e-6;
const THETA = 10000;

/** `vision_config` in `config.json`; defaults are those of transformers' `Qwen3VLVisionConfig`. */
export const QWEN3_VISION_CONFIG = z.object({
  depth: z.int().positive().max(1024).default(27),
  hidden_size: z.int().positive().default(1152),
  intermediate_size: z.int().positive().default(4304),
  num_heads: z.int().positive().default(16),
  in_channels: z.literal(3).default(3),
  patch_size: z.int().positive().max(64).default(16),
  spatial_merge_size: z.literal(PATCHES_PER_SIDE).default(PATCHES_PER_SIDE),
  temporal_patch_size: z.literal(FRAMES).default(FRAMES),
  out_hidden_size: z.int().positive().default(3584),
  num_position_embeddings: z.int().positive().default(2304),
  deepstack_visual_indexes: z.array(z.int().nonnegative()).default([8, 16, 24]),
  hidden_act: z.literal("gelu_pytorch_tanh").default("gelu_pytorch_tanh"),
}).superRefine((config, context) => {
  const { hidden_size, num_heads: heads, depth, num_position_embeddings: places } = config;
  if (!headFits(hidden_size / heads)) {
    refuse(context, "num_heads", "heads must be multiples of 4 up to 128 wide");
  }
  if (!Number.isInteger(Math.sqrt(places))) {
    refuse(context, "num_position_embeddings", "it must be a square");
  }
  if (config.deepstack_visual_indexes.some((layer) => layer >= depth)) {
    refuse(context, "deepstack_visual_indexes", `layers must be below depth = ${depth}`);
  }
});

export type Qwen3VisionConfig = z.output<typeof QWEN3_VISION_CONFIG>;

/** The patches in the order in which the tower takes them: those of a token together, tokens row by row. */
export function qwen3VisionLayout(grid: PatchGrid): PatchLayout["positions"] {
  return patchLayout(grid, Math.max(grid.rows, grid.columns)).positions;
}

/** Patches of an image whose sides are multiples of two of them, in [-1, 1]: [patches, patch_size² · 3]. */
export function qwen3PatchPixels(
  { width, data }: RgbImage,
  positions: PatchLayout["positions"],
  patchSide: number,
): Float32Array<ArrayBuffer> {
  const pixels = Float32Array.from(data, (value) => value / 127.5 - 1);
  return patchesOf(pixels, width, positions, patchSide);
}

/** What the language model sees of an image, row by row, [tokens, out_hidden_size]: at first, and after its first layers. */
export function qwen3Vision(
  graph: Graph,
  config: Qwen3VisionConfig,
  weights: WeightScope,
  patches: Tensor,
  grid: PatchGrid,
): Tensor[] {
  const { hidden_size: dim, num_heads: heads, deepstack_visual_indexes: taps } = config;
  const axis = dim / heads / 2;
  const positions = qwen3VisionLayout(grid);
  const rotary = rotaryConstants(graph, "vision", positions, [axis, axis], THETA);
  const embedded = embeddedPatches(weights, patches, dim, config.patch_size);
  let x = withPositions(config, weights, embedded, positions, grid);
  const deepstack = new Array<Tensor | undefined>(taps.length).fill(undefined);
  for (let layer = 0; layer < config.depth; layer++) {
    x = graph.scope(
      `blocks.${layer}`,
      () => visionLayer(config, weights.scope("blocks").scope(layer), x, rotary),
    );
    const tap = taps.indexOf(layer);
    if (tap < 0) continue;
    const scope = weights.scope("deepstack_merger_list").scope(tap);
    deepstack[tap] = merged(config, scope, norm(scope, "norm", grouped(x)));
  }
  const merger = weights.scope("merger");
  const tokens = merged(config, merger, grouped(norm(merger, "norm", x)));
  return [tokens, ...deepstack.map((features) => features!)];
}

/** Adds the learned positions, between which the grid's places lie. */
function withPositions(
  { num_position_embeddings: count, hidden_size: dim }: Qwen3VisionConfig,
  weights: WeightScope,
  x: Tensor,
  positions: PatchLayout["positions"],
  grid: PatchGrid,
): Tensor {
  const { graph } = x;
  const side = Math.sqrt(count);
  const table = weights.tensor(graph, "pos_embed.weight", [count, dim]);
  // In f32, as in the reference, which otherwise falls into another cell of the table at times.
  const place = (index: number, size: number) =>
    Math.fround(Math.fround(index * (side - 1)) / Math.max(size - 1, 1));
  const corner = (down: number, right: number) => {
    const places = new Uint32Array(positions.length);
    const shares = new Float32Array(positions.length);
    positions.forEach(([row, column], i) => {
      const [y, x] = [place(row, grid.rows), place(column, grid.columns)];
      const [top, left] = [Math.floor(y), Math.floor(x)];
      places[i] = Math.min(top + down, side - 1) * side + Math.min(left + right, side - 1);
      shares[i] = (down ? y - top : 1 - (y - top)) * (right ? x - left : 1 - (x - left));
    });
    const name = `corner ${down} ${right}`;
    return {
      p: gather(table, graph.constant(name, [1, positions.length], "u32", places)),
      s: graph.constant(`${name} shares`, [1, positions.length, 1], "f32", shares),
    };
  };
  for (const [down, right] of [[0, 0], [0, 1], [1, 0], [1, 1]] as const) {
    x = elementwise("x + s * p", { x, ...corner(down, right) }, { name: "placed" });
  }
  return x;
}

function visionLayer(
  { num_heads: heads, intermediate_size }: Qwen3VisionConfig,
  weights: WeightScope,
  x: Tensor,
  rotary: Rotation,
): Tensor {
  const [, tokens, dim] = x.shape as [number, number, number];
  const attn = weights.scope("attn");
  const joined = linearLayer(attn, "qkv", norm(weights, "norm1", x), 3 * dim, { parts: 3 });
  const part = (i: number) => slice(joined, 0, i, i + 1).reshape(1, tokens, heads, dim / heads);
  const placed = (i: number) => rope(part(i), rotary.cos, rotary.sin, { style: "half" });
  const attended = attention(placed(0), placed(1), part(2)).reshape(1, tokens, dim);
  const y = linearLayer(attn, "proj", attended, dim, { residual: x });
  const mlp = weights.scope("mlp");
  const hidden = linearLayer(mlp, "linear_fc1", norm(weights, "norm2", y), intermediate_size, {
    activation: "gelu_tanh",
  });
  return linearLayer(mlp, "linear_fc2", hidden, dim, { residual: y });
}

/** The patches of each token side by side. */
function grouped(x: Tensor): Tensor {
  const group = PATCHES_PER_SIDE ** 2;
  return x.reshape(1, x.dim(1) / group, group * x.dim(-1));
}

function merged({ out_hidden_size }: Qwen3VisionConfig, weights: WeightScope, x: Tensor): Tensor {
  const hidden = linearLayer(weights, "linear_fc1", x, x.dim(-1), { activation: "gelu" });
  return linearLayer(weights, "linear_fc2", hidden, out_hidden_size).reshape(-1, out_hidden_size);
}

function norm(weights: WeightScope, name: string, x: Tensor): Tensor {
  const [weight, bias] = ["weight", "bias"].map((part) =>
    weights.tensor(x.graph, `${name}.${part}`, [x.dim(-1)])
  );
  return layerNorm(x, { eps: EPS, weight, bias, name });
}
