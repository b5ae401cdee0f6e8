/** FLUX.2's components in single files: how they are known, and what their folders would say of them. */
import { basename } from "node:path";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3_format.ts";
import { ORIGINAL_FLUX2 } from "./layouts.ts";

/** Heads of klein 9B; 4B has fewer. */
const HEADS_9B = 32;

const TRANSFORMER: ComponentFormat = {
  name: "a FLUX.2 transformer",
  component: "transformer",
  className: "Flux2Transformer2DModel",
  namings: [
    {
      probes: ["single_stream_modulation.lin.weight", "double_blocks.0.img_attn.qkv.weight"],
      layout: ORIGINAL_FLUX2,
    },
    {
      probes: ["single_stream_modulation.linear.weight", "transformer_blocks.0.attn.to_q.weight"],
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of FLUX.2-klein. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const time = "time_guidance_embed";
  if (tensors.find(`${time}.guidance_embedder.linear_1.weight`)) {
    throw new TypeError(
      `Cannot use "${tensors.path}": it takes the guidance as an input, as FLUX.2-dev does, which is not supported; use FLUX.2-klein`,
    );
  }
  const [dim, inChannels] = shapeOf(tensors, "x_embedder.weight", 2) as [number, number];
  const block = "transformer_blocks.0";
  const headDim = shapeOf(tensors, `${block}.attn.norm_q.weight`, 1)[0]!;
  return {
    _class_name: TRANSFORMER.className,
    in_channels: inChannels,
    num_layers: countModules(tensors, "transformer_blocks."),
    num_single_layers: countModules(tensors, "single_transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shapeOf(tensors, "context_embedder.weight", 2)[1]!,
    timestep_guidance_channels: shapeOf(
      tensors,
      `${time}.timestep_embedder.linear_1.weight`,
      2,
    )[1]!,
    mlp_ratio: shapeOf(tensors, `${block}.ff.linear_out.weight`, 2)[1]! / dim,
    axes_dims_rope: [32, 32, 32, 32],
    rope_theta: 2000,
    eps: 1e-6,
    guidance_embeds: false,
  };
}

/** Shapes do not tell whether a checkpoint is distilled; the names of files of those that are not say `base`. */
function defaults(transformer: JsonObject, path: string): FamilyDefaults {
  const isBase = /base/i.test(basename(path));
  const size = Number(transformer["num_attention_heads"]) >= HEADS_9B ? "9B" : "4B";
  const repositories = [`klein-${size}`, `klein-base-${size}`];
  if (isBase) repositories.reverse();
  return {
    className: "Flux2KleinPipeline",
    settings: { is_distilled: !isBase },
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
      use_dynamic_shifting: true,
      base_shift: 0.5,
      max_shift: 1.15,
      base_image_seq_len: 256,
      max_image_seq_len: 4096,
      time_shift_type: "exponential",
    },
    repositories: repositories.map((name) => `black-forest-labs/FLUX.2-${name}`),
  };
}

/** See the file comment. */
export const FLUX2_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_FORMAT, FLUX2_VAE_FORMAT],
  defaults,
};
