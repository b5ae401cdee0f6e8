/** Lumina-Image 2.0 in single files. Source of the names: diffusers' `convert_lumina2_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed, renamedIn } from "../../layouts.ts";
import { GEMMA2_FORMAT } from "../../text_encoders/gemma2.ts";
import { PATCH_SIDE } from "./config.ts";

/** Queries of the published models for one key. */
const QUERIES_PER_KEY = 3;

/** Names of a block, without its norms. */
const BLOCK = [
  ["attention.out", "attn.to_out.0"],
  ["attention.q_norm", "attn.norm_q"],
  ["attention.k_norm", "attn.norm_k"],
  ...[1, 2, 3].map((i) => [`feed_forward.w${i}`, `feed_forward.linear_${i}`] as const),
  ["attention_norm2", "norm2"],
] as const;
const MODULATED = [["attention_norm1", "norm1.norm"], [
  "adaLN_modulation.1",
  "norm1.linear",
]] as const;

/** The names of Alpha-VLLM, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_LUMINA2: Layout = {
  name: "original Lumina 2",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...["layers", "noise_refiner", "context_refiner"].map((stack) => `${stack}.*`).flatMap((
      block,
    ) => [
      {
        theirs: `${block}.attention.qkv`,
        ours: ["to_q", "to_k", "to_v"].map((name) => `${block}.attn.${name}`),
        shares: [QUERIES_PER_KEY, 1, 1],
      },
      ...renamedIn(BLOCK, block, block),
    ]),
    ...["layers.*", "noise_refiner.*"].flatMap((block) => renamedIn(MODULATED, block, block)),
    renamed("context_refiner.*.attention_norm1", "context_refiner.*.norm1"),
    renamed("cap_embedder.0", "time_caption_embed.caption_embedder.0"),
    renamed("cap_embedder.1", "time_caption_embed.caption_embedder.1"),
    renamed("t_embedder.mlp.0", "time_caption_embed.timestep_embedder.linear_1"),
    renamed("t_embedder.mlp.2", "time_caption_embed.timestep_embedder.linear_2"),
    renamed("final_layer.adaLN_modulation.1", "norm_out.linear_1"),
    renamed("final_layer.linear", "norm_out.linear_2"),
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "a Lumina 2 transformer",
  component: "transformer",
  className: "Lumina2Transformer2DModel",
  architecture: "lumina2",
  namings: [
    {
      // Z-Image, which has the same blocks, modulates by its first layer.
      probes: ["cap_embedder.1.weight", "layers.0.adaLN_modulation.1.weight"],
      layout: ORIGINAL_LUMINA2,
    },
    {
      probes: ["time_caption_embed.caption_embedder.1.weight", "layers.0.norm1.linear.weight"],
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of Lumina-Image-2.0. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const [dim, features] = shapeOf(tensors, "x_embedder.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "layers.0.attn.norm_q.weight", 1)[0]!;
  const caption = "time_caption_embed.caption_embedder.1.weight";
  return {
    _class_name: TRANSFORMER.className,
    in_channels: features / PATCH_SIDE ** 2,
    hidden_size: dim,
    num_layers: countModules(tensors, "layers."),
    num_refiner_layers: countModules(tensors, "noise_refiner."),
    num_attention_heads: dim / headDim,
    num_kv_heads: shapeOf(tensors, "layers.0.attn.to_k.weight", 2)[0]! / headDim,
    axes_dim_rope: new Array<number>(3).fill(headDim / 3),
    cap_feat_dim: shapeOf(tensors, caption, 2)[1]!,
  };
}

/** Single files. */
export const LUMINA2_FILES: FamilyFiles = {
  formats: [TRANSFORMER, GEMMA2_FORMAT, FLUX1_VAE_FORMAT],
  defaults: () => ({
    className: "Lumina2Pipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 6,
    },
    repositories: ["Alpha-VLLM/Lumina-Image-2.0"],
  }),
};
