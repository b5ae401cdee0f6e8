/**
 * CLIP's vision tower: a transformer over the patches of an image and one class token.
 * Source: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision"; transformers
 * `CLIPVisionModel` and `CLIPVisionModelWithProjection`, whose module names are the weight names.
 */
import { z } from "zod";
import {
  concat,
  elementwise,
  type Graph,
  layerNorm,
  slice,
  type Tensor,
  type TensorSource,
  type WeightScope,
} from "../../runtime/mod.ts";
import { affine, clipLayer } from "../blocks/clip_layer.ts";
import { forEachSample, linearLayer, patchEmbeddingLayer } from "../blocks/layers.ts";
import { rearrange } from "../rearrange.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import { headFits } from "../config.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";

/** What `config.json` may say; defaults are those of transformers' `CLIPVisionConfig`. */
export const CLIP_VISION_CONFIG = z.object({
  model_type: z.literal("clip_vision_model").default("clip_vision_model"),
  hidden_size: z.int().positive().default(768),
  intermediate_size: z.int().positive().default(3072),
  num_hidden_layers: z.int().min(2).default(12),
  num_attention_heads: z.int().positive().default(12),
  num_channels: z.literal(3).default(3),
  image_size: z.int().positive().max(1024).default(224),
  patch_size: z.int().positive().default(32),
  /** Width of an image's embedding, where the tower has a projection. */
  projection_dim: z.int().positive().default(512),
  hidden_act: z.enum(["gelu", "quick_gelu"]).default("quick_gelu"),
  layer_norm_eps: z.number().positive().max(1).default(1e-5),
}).refine(
  ({ hidden_size, num_attention_heads: heads }) => headFits(hidden_size / heads),
  { path: ["num_attention_heads"], message: "heads must be multiples of 4 up to 128 wide" },
).refine(
  ({ image_size, patch_size }) => image_size % patch_size === 0,
  { path: ["patch_size"], message: "it must divide image_size" },
);

export type ClipVisionConfig = z.output<typeof CLIP_VISION_CONFIG>;

/** Mean and standard deviation of the pixels of CLIP's training, red, green, blue, of 0 to 1. */
const PIXEL_MEAN = [0.48145466, 0.4578275, 0.40821073];
const PIXEL_STD = [0.26862954, 0.26130258, 0.27577711];

/** States that the encoder gives for an image: one for each patch, and the class token's. */
export function clipTokenCount({ image_size, patch_size }: ClipVisionConfig): number {
  return (image_size / patch_size) ** 2 + 1;
}

/** Pixels, 0 to 255, as the encoder takes them. */
export function toClipPixels(rgb: Uint8Array | Float32Array): Float32Array<ArrayBuffer> {
  return Float32Array.from(
    rgb,
    (value, i) => (value / 255 - PIXEL_MEAN[i % 3]!) / PIXEL_STD[i % 3]!,
  );
}

/** The states before the last layer, [images, tokens, hidden_size], the class token's first. */
export function clipVision(
  graph: Graph,
  config: ClipVisionConfig,
  weights: WeightScope,
  pixels: Tensor,
): Tensor {
  const { hidden_size: dim, layer_norm_eps: eps } = config;
  const images = pixels.dim(0);
  const model = towerOf(weights);
  const embeddings = model.scope("embeddings");
  const classToken = embeddings.tensor(graph, "class_embedding", [dim]).reshape(1, 1, dim);
  const patches = patchEmbedding(config, embeddings, pixels);
  const tokens = concat([forEachSample(classToken, images), patches], 1);
  const positions = embeddings.tensor(graph, "position_embedding.weight", [tokens.dim(1), dim]);
  const placed = elementwise("x + p", { x: tokens, p: positions.reshape(1, -1, dim) });
  let x = layerNorm(placed, { eps, ...affine(graph, model, "pre_layrnorm", dim) });
  for (let layer = 0; layer < config.num_hidden_layers - 1; layer++) {
    x = towerLayer(config, model, x, layer);
  }
  return x;
}

/** An embedding of each image as a whole, [images, projection_dim], of the states before the last layer. */
export function clipImageEmbeds(
  config: ClipVisionConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const { hidden_size: dim, layer_norm_eps: eps, projection_dim } = config;
  const model = towerOf(weights);
  const last = towerLayer(config, model, states, config.num_hidden_layers - 1);
  const norm = { eps, ...affine(states.graph, model, "post_layernorm", dim) };
  const classes = slice(last, 1, 0, 1).reshape(-1, dim);
  return linearLayer(weights, "visual_projection", classes, projection_dim, { norm });
}

/** Files of transformers before 5, and towers with a projection, have it below `vision_model`. */
export function towerOf(weights: WeightScope, tensor = CLASS_EMBEDDING): WeightScope {
  const isBelow = weights.has(`vision_model.${tensor}`);
  return isBelow ? weights.scope("vision_model") : weights;
}

export function towerLayer(
  config: Parameters<typeof clipLayer>[0],
  tower: WeightScope,
  x: Tensor,
  layer: number,
): Tensor {
  const weights = tower.scope(`encoder.layers.${layer}`);
  return x.graph.scope(
    `layers.${layer}`,
    () => clipLayer(config, weights, x, { causal: false }),
  );
}

export function patchEmbedding(
  { patch_size: side, hidden_size: dim }: Pick<ClipVisionConfig, "patch_size" | "hidden_size">,
  weights: WeightScope,
  pixels: Tensor,
): Tensor {
  const patches = rearrange(pixels, "n (y i) (x j) c -> n (y x) (i j c)", { i: side, j: side });
  return patchEmbeddingLayer(weights, "patch_embedding", patches, dim, {
    channels: 3,
    patch: [side, side],
  });
}

/** Head sizes of CLIP's large towers, by their widths; narrower ones have heads of 64. */
const HEAD_DIMS: ReadonlyMap<number, number> = new Map([[1280, 80], [1664, 104]]);
const SMALL_HEAD_DIM = 64;

const CLASS_EMBEDDING = "embeddings.class_embedding";
const PROJECTION = "visual_projection.weight";

/** CLIP's vision tower in single files, which have the names of transformers. */
export const CLIP_VISION_FORMAT: ComponentFormat = {
  name: "a CLIP image encoder",
  component: "image_encoder",
  className: "CLIPVisionModel",
  namings: [
    { probes: [PROJECTION, `vision_model.${CLASS_EMBEDDING}`] },
    { probes: [CLASS_EMBEDDING, "encoder.layers.0.self_attn.q_proj.weight"] },
  ],
  config,
};

function config(tensors: TensorSource): JsonObject {
  const hasProjection = tensors.find(PROJECTION) !== undefined;
  const tower = hasProjection ? "vision_model." : "";
  const shape = (name: string, rank: number) => shapeOf(tensors, tower + name, rank);
  const [dim] = shape(CLASS_EMBEDDING, 1) as [number];
  const [, , patch] = shape("embeddings.patch_embedding.weight", 4) as number[];
  const [positions] = shape("embeddings.position_embedding.weight", 2) as [number];
  const headDim = HEAD_DIMS.get(dim) ?? SMALL_HEAD_DIM;
  return {
    model_type: "clip_vision_model",
    hidden_size: dim,
    intermediate_size: shape("encoder.layers.0.mlp.fc1.weight", 2)[0]!,
    num_hidden_layers: countLayers(tensors, `${tower}encoder.layers.`),
    num_attention_heads: Math.max(1, dim / headDim),
    image_size: Math.sqrt(positions - 1) * patch!,
    patch_size: patch!,
    ...(hasProjection && { projection_dim: shapeOf(tensors, PROJECTION, 2)[0]! }),
    // OpenCLIP's towers; OpenAI's have quick_gelu, and no model takes them.
    hidden_act: "gelu",
  };
}
