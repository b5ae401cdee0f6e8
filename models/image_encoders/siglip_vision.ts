/**
 * SigLIP's vision tower: a transformer over the patches of an image.
 * Source: Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training"; transformers `SiglipVisionModel`, whose module
 * names are the weight names.
 */
import { z } from "zod";
import {
  elementwise,
  type Graph,
  layerNorm,
  slice,
  type Tensor,
  type TensorSource,
  type WeightScope,
} from "../../runtime/mod.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import { affine } from "../blocks/clip_layer.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { headFits } from "../config.ts";
import { patchEmbedding, towerLayer, towerOf } from "./clip_vision.ts";

/** What `config.json` may say; defaults are those of transformers' `SiglipVisionConfig`. */
export const SIGLIP_VISION_CONFIG = z.object({
  model_type: z.literal("siglip_vision_model").default("siglip_vision_model"),
  hidden_size: z.int().positive().default(768),
  intermediate_size: z.int().positive().default(3072),
  num_hidden_layers: z.int().positive().max(1024).default(12),
  num_attention_heads: z.int().positive().default(12),
  num_channels: z.literal(3).default(3),
  image_size: z.int().positive().max(1024).default(224),
  patch_size: z.int().positive().default(16),
  hidden_act: z.literal("gelu_pytorch_tanh").default("gelu_pytorch_tanh")
    .transform(() => "gelu_tanh" as const),
  layer_norm_eps: z.number().positive().max(1).default(1e-6),
}).refine(
  ({ hidden_size, num_attention_heads: heads }) => headFits(hidden_size / heads),
  { path: ["num_attention_heads"], message: "heads must be multiples of 4 up to 128 wide" },
).refine(
  ({ image_size, patch_size }) => patch_size <= image_size,
  { path: ["patch_size"], message: "it must not exceed image_size" },
);

type SiglipVisionConfig = z.output<typeof SIGLIP_VISION_CONFIG>;

/** Patches along a side; what they do not fill is not seen. */
function patchesPerSide({ image_size, patch_size }: SiglipVisionConfig): number {
  return Math.floor(image_size / patch_size);
}

/** Pixels, 0 to 255, as the encoder takes them. */
export function toSiglipPixels(rgb: Uint8Array): Float32Array<ArrayBuffer> {
  return Float32Array.from(rgb, (value) => value / 127.5 - 1);
}

/** The last states, [images, tokens, hidden_size], of pixels, [images, image_size, image_size, 3]. */
export function siglipVision(
  graph: Graph,
  config: SiglipVisionConfig,
  weights: WeightScope,
  pixels: Tensor,
): Tensor {
  const { hidden_size: dim, layer_norm_eps: eps, patch_size: side } = config;
  const model = towerOf(weights, POSITIONS);
  const embeddings = model.scope("embeddings");
  const count = patchesPerSide(config);
  const seen = [1, 2].reduce((x, axis) => slice(x, axis, 0, count * side), pixels);
  const embedded = patchEmbedding(config, embeddings, seen);
  const positions = embeddings.tensor(graph, "position_embedding.weight", [count ** 2, dim]);
  let x = elementwise("x + p", { x: embedded, p: positions.reshape(1, -1, dim) });
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    x = towerLayer(config, model, x, layer);
  }
  return layerNorm(x, { eps, ...affine(graph, model, "post_layernorm", dim) });
}

const POSITIONS = "embeddings.position_embedding.weight";

/** Width of a head of the published towers. */
const HEAD_DIM = 72;

/** SigLIP's vision tower in single files, which have the names of transformers. */
export const SIGLIP_VISION_FORMAT: ComponentFormat = {
  name: "a SigLIP image encoder",
  component: "image_encoder",
  className: "SiglipVisionModel",
  namings: [
    { probes: [`vision_model.${POSITIONS}`, "vision_model.post_layernorm.weight"] },
    { probes: [POSITIONS, "post_layernorm.weight", "encoder.layers.0.self_attn.q_proj.weight"] },
  ],
  // CLIP's towers have a token that stands for the whole image.
  fits: (tensors) =>
    ["", "vision_model."].every((tower) =>
      tensors.find(`${tower}embeddings.class_embedding`) === undefined
    ),
  config,
};

function config(tensors: TensorSource): JsonObject {
  const tower = tensors.find(POSITIONS) ? "" : "vision_model.";
  const shape = (name: string, rank: number) => shapeOf(tensors, tower + name, rank);
  const [dim, , patch] = shape("embeddings.patch_embedding.weight", 4) as number[];
  const [positions] = shape(POSITIONS, 2) as [number];
  const side = Math.sqrt(positions);
  return {
    model_type: "siglip_vision_model",
    hidden_size: dim!,
    intermediate_size: shape("encoder.layers.0.mlp.fc1.weight", 2)[0]!,
    num_hidden_layers: countLayers(tensors, `${tower}encoder.layers.`),
    num_attention_heads: Math.max(1, dim! / HEAD_DIM),
    // Of so400m, 384 pixels hold 27 patches of 14, and 6 pixels more.
    image_size: side === 27 && patch === 14 ? 384 : side * patch!,
    patch_size: patch!,
  };
}
