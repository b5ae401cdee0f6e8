/**
 * Qwen2.5-VL's vision tower: patches attend within windows in most layers; a merger makes a token of 2 by 2 patches.
 * Source: Qwen team 2025, "Qwen2.5-VL Technical Report"; transformers `Qwen2_5_VisionTransformerPretrainedModel`,
 * `Qwen2VLImageProcessor` and `get_vision_window_index`.
 */
import { z } from "zod";
import {
  attention,
  concat,
  gather,
  type Graph,
  rmsNorm,
  rope,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../runtime/mod.ts";
import { rotaryConstants } from "../blocks/embeddings.ts";
import { linearLayer, patchEmbeddingLayer } from "../blocks/layers.ts";
import type { RgbImage } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import { headFits } from "../config.ts";
import { toClipPixels } from "./clip_vision.ts";

/** Patches along a side of what becomes one token. */
export const PATCHES_PER_SIDE = 2;

/** Fewest and most pixels of an image, of the published models' `preprocessor_config.json`. */
const PIXELS = { least: 56 * 56, most: 12845056 };

export interface Sides {
  readonly width: number;
  readonly height: number;
}

export interface PatchGrid {
  readonly rows: number;
  readonly columns: number;
}

/** The order in which the tower takes the patches of an image: window by window, windows of one size together. */
export interface PatchLayout {
  readonly positions: readonly (readonly [row: number, column: number])[];
  readonly windows: readonly { readonly count: number; readonly length: number }[];
  /** Place of every token in that order, row by row. */
  readonly order: Uint32Array<ArrayBuffer>;
}

/** Sides that are multiples of a factor, of an image with so many pixels. */
export function smartSize(
  { width, height }: Sides,
  factor: number,
  { least, most }: { readonly least: number; readonly most: number } = PIXELS,
): Sides {
  const [w, h] = [width, height].map((side) => roundToEven(side / factor) * factor) as [
    number,
    number,
  ];
  if (w * h > most) {
    const beta = Math.sqrt(width * height / most);
    const floor = (side: number) => Math.max(factor, Math.floor(side / beta / factor) * factor);
    return { width: floor(width), height: floor(height) };
  }
  if (w * h < least) {
    const beta = Math.sqrt(least / (width * height));
    const ceil = (side: number) => Math.ceil(side * beta / factor) * factor;
    return { width: ceil(width), height: ceil(height) };
  }
  return { width: w, height: h };
}

/** Rounds as Python does: halves go to the even number. */
export function roundToEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

export function patchGrid(size: Sides, patchSide: number): PatchGrid {
  const { width, height } = smartSize(size, PATCHES_PER_SIDE * patchSide);
  return { rows: height / patchSide, columns: width / patchSide };
}

export function tokensOf({ rows, columns }: PatchGrid): number {
  return rows * columns / PATCHES_PER_SIDE ** 2;
}

export function patchLayout({ rows, columns }: PatchGrid, windowSide: number): PatchLayout {
  const [height, width] = [rows / PATCHES_PER_SIDE, columns / PATCHES_PER_SIDE];
  const windows: number[][] = [];
  for (let top = 0; top < height; top += windowSide) {
    for (let left = 0; left < width; left += windowSide) {
      const tokens: number[] = [];
      for (let y = top; y < Math.min(height, top + windowSide); y++) {
        for (let x = left; x < Math.min(width, left + windowSide); x++) tokens.push(y * width + x);
      }
      windows.push(tokens);
    }
  }
  const bySize = [...Map.groupBy(windows, ({ length }) => length)];
  const placed = bySize.flatMap(([, group]) => group.flat());
  const order = new Uint32Array(placed.length);
  placed.forEach((token, i) => order[token] = i);
  const places = Array.from({ length: PATCHES_PER_SIDE ** 2 }, (_, i) => i);
  return {
    positions: placed.flatMap((token) =>
      places.map((i) =>
        [
          PATCHES_PER_SIDE * Math.floor(token / width) + Math.floor(i / PATCHES_PER_SIDE),
          PATCHES_PER_SIDE * (token % width) + i % PATCHES_PER_SIDE,
        ] as const
      )
    ),
    windows: bySize.map(([length, { length: count }]) => ({
      count,
      length: length * places.length,
    })),
    order,
  };
}

/** The patches of an image, normalised: [patches, patchSide² · 3], each in the order (row, column, channel). */
export function patchPixels(
  image: RgbImage,
  { positions }: PatchLayout,
  patchSide: number,
): Float32Array<ArrayBuffer> {
  const { width, height } = smartSize(image, PATCHES_PER_SIDE * patchSide);
  const pixels = toClipPixels(resize(image, width, height, "bicubic").data);
  return patchesOf(pixels, width, positions, patchSide);
}

/** Patches of pixels, RGB, in the order of `positions`. */
export function patchesOf(
  pixels: Float32Array,
  width: number,
  positions: PatchLayout["positions"],
  patchSide: number,
): Float32Array<ArrayBuffer> {
  const line = patchSide * 3;
  const result = new Float32Array(positions.length * patchSide * line);
  let to = 0;
  for (const [row, column] of positions) {
    for (let y = 0; y < patchSide; y++, to += line) {
      const from = ((row * patchSide + y) * width + column * patchSide) * 3;
      result.set(pixels.subarray(from, from + line), to);
    }
  }
  return result;
}

const EPS = 1e-6;
const THETA = 10000;
/** Frames of a patch; an image is shown as two that are equal. */
export const FRAMES = 2;

/** `vision_config` in `config.json`; defaults are those of the published models. */
export const QWEN2_5_VISION_CONFIG = z.object({
  depth: z.int().positive().max(1024).default(32),
  hidden_size: z.int().positive().default(1280),
  intermediate_size: z.int().positive().default(3420),
  num_heads: z.int().positive().default(16),
  in_channels: z.literal(3).default(3),
  patch_size: z.int().positive().max(64).default(14),
  spatial_merge_size: z.literal(PATCHES_PER_SIDE).default(PATCHES_PER_SIDE),
  temporal_patch_size: z.literal(FRAMES).default(FRAMES),
  window_size: z.int().positive().default(112),
  out_hidden_size: z.int().positive().default(3584),
  fullatt_block_indexes: z.array(z.int().nonnegative()).default([7, 15, 23, 31]),
  hidden_act: z.literal("silu").default("silu"),
}).refine(
  ({ hidden_size, num_heads: heads }) => headFits(hidden_size / heads),
  { path: ["num_heads"], message: "heads must be multiples of 4 up to 128 wide" },
).refine(
  ({ window_size, patch_size }) => window_size % (PATCHES_PER_SIDE * patch_size) === 0,
  { path: ["window_size"], message: "it must be a multiple of two patches" },
);

export type Qwen25VisionConfig = z.output<typeof QWEN2_5_VISION_CONFIG>;

export function visionLayout(
  { window_size, patch_size }: Qwen25VisionConfig,
  grid: PatchGrid,
): PatchLayout {
  return patchLayout(grid, window_size / (PATCHES_PER_SIDE * patch_size));
}

/** The tokens that the language model sees of an image, row by row: [tokens, out_hidden_size]. */
export function qwen25Vision(
  graph: Graph,
  config: Qwen25VisionConfig,
  weights: WeightScope,
  patches: Tensor,
  layout: PatchLayout,
): Tensor {
  const { hidden_size: dim, num_heads: heads, patch_size: side } = config;
  const axes = dim / heads / 2;
  const rotary = rotaryConstants(graph, "vision", layout.positions, [axes, axes], THETA);
  let x = embeddedPatches(weights, patches, dim, side);
  for (let layer = 0; layer < config.depth; layer++) {
    const windows = config.fullatt_block_indexes.includes(layer)
      ? [{ count: 1, length: x.dim(1) }]
      : layout.windows;
    x = graph.scope(`blocks.${layer}`, () => {
      const block = weights.scope("blocks").scope(layer);
      return visionLayer(config, block, x, rotary, windows);
    });
  }
  const normed = norm(weights, "merger.ln_q", x);
  const merged = normed.reshape(1, -1, PATCHES_PER_SIDE ** 2 * dim);
  const hidden = linearLayer(weights, "merger.mlp.0", merged, merged.dim(-1), {
    activation: "gelu",
  });
  const tokens = linearLayer(weights, "merger.mlp.2", hidden, config.out_hidden_size);
  const order = graph.constant("token order", [layout.order.length], "u32", layout.order);
  return gather(tokens.reshape(-1, config.out_hidden_size), order);
}

/** [1, patches, dim] of [patches, side² · 3]. */
export function embeddedPatches(
  weights: WeightScope,
  patches: Tensor,
  dim: number,
  side: number,
): Tensor {
  const frames = concat(new Array<Tensor>(FRAMES).fill(patches), 1);
  return patchEmbeddingLayer(
    ...[weights, "patch_embed.proj", frames.reshape(1, ...frames.shape), dim] as const,
    { channels: 3, patch: [FRAMES, side, side] },
  );
}

function visionLayer(
  { num_heads: heads, intermediate_size }: Qwen25VisionConfig,
  weights: WeightScope,
  x: Tensor,
  rotary: Rotation,
  windows: PatchLayout["windows"],
): Tensor {
  const [, tokens, dim] = x.shape as [number, number, number];
  const attn = weights.scope("attn");
  const joined = linearLayer(attn, "qkv", norm(weights, "norm1", x), 3 * dim, { parts: 3 });
  const part = (i: number) => slice(joined, 0, i, i + 1).reshape(1, tokens, heads, dim / heads);
  const placed = (i: number) => rope(part(i), rotary.cos, rotary.sin, { style: "half" });
  const all = [placed(0), placed(1), part(2)] as const;
  let first = 0;
  const attended = windows.map(({ count, length }) => {
    const end = first + count * length;
    const [query, key, value] = all.map((whole) =>
      slice(whole, 1, first, end).reshape(count, length, heads, dim / heads)
    ) as [Tensor, Tensor, Tensor];
    first = end;
    return attention(query, key, value).reshape(1, -1, dim);
  });
  const y = linearLayer(attn, "proj", concat(attended, 1), dim, { residual: x });
  const mlp = weights.scope("mlp");
  const h = norm(weights, "norm2", y);
  const gate = linearLayer(mlp, "gate_proj", h, intermediate_size, { activation: "silu" });
  const hidden = linearLayer(mlp, "up_proj", h, intermediate_size, { gate });
  return linearLayer(mlp, "down_proj", hidden, dim, { residual: y });
}

function norm(weights: WeightScope, name: string, x: Tensor): Tensor {
  const weight = weights.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
  return rmsNorm(x, { weight, eps: EPS, name });
}
