/** AuraFlow in single files. Source of the names: diffusers' `convert_auraflow_transformer_checkpoint_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { SD_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";
import { UMT5_FORMAT } from "../../text_encoders/t5.ts";
import { PATCH_SIDE } from "./config.ts";

const [DOUBLE, SINGLE] = ["joint_transformer_blocks.*", "single_transformer_blocks.*"];

/** Elements of a head of the published models. */
const HEAD_DIM = 256;

/** The names of fal, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_AURAFLOW: Layout = {
  name: "original AuraFlow",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    renamed("t_embedder.mlp.0", "time_step_proj.linear_1"),
    renamed("t_embedder.mlp.2", "time_step_proj.linear_2"),
    renamed("cond_seq_linear", "context_embedder"),
    renamed("init_x_linear", "pos_embed.proj"),
    renamed("positional_encoding", "pos_embed.pos_embed"),
    ...stream("X", "2", "norm1", "ff", ["to_q", "to_k", "to_v", "to_out.0"]),
    ...stream("C", "1", "norm1_context", "ff_context", [
      ...["add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"],
    ]),
    ...feedForward("single_layers.*.mlp", `${SINGLE}.ff`),
    renamed("single_layers.*.modCX.1", `${SINGLE}.norm1.linear`),
    ...attention("single_layers.*.attn.w1", `${SINGLE}.attn`, ["to_q", "to_k", "to_v", "to_out.0"]),
    renamed("final_linear", "proj_out"),
    // There the shift comes first.
    { theirs: "modF.1", ours: ["norm_out.linear"], swapsHalves: true },
  ],
};

function stream(
  kind: string,
  number: string,
  norm: string,
  ff: string,
  projections: readonly string[],
): LayoutEntry[] {
  return [
    ...feedForward(`double_layers.*.mlp${kind}`, `${DOUBLE}.${ff}`),
    renamed(`double_layers.*.mod${kind}.1`, `${DOUBLE}.${norm}.linear`),
    ...attention(`double_layers.*.attn.w${number}`, `${DOUBLE}.attn`, projections),
  ];
}

function feedForward(theirs: string, ours: string): LayoutEntry[] {
  const names = [["c_fc1", "linear_1"], ["c_fc2", "linear_2"], [
    "c_proj",
    "out_projection",
  ]] as const;
  return renamedIn(names, theirs, ours);
}

function attention(theirs: string, ours: string, names: readonly string[]): LayoutEntry[] {
  return ["q", "k", "v", "o"].map((part, i) => renamed(theirs + part, `${ours}.${names[i]}`));
}

const TRANSFORMER: ComponentFormat = {
  name: "an AuraFlow transformer",
  component: "transformer",
  className: "AuraFlowTransformer2DModel",
  architecture: "aura",
  namings: [
    {
      probes: ["cond_seq_linear.weight", "double_layers.0.attn.w1q.weight"],
      layout: ORIGINAL_AURAFLOW,
    },
    { probes: ["register_tokens", "joint_transformer_blocks.0.attn.add_q_proj.weight"] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of AuraFlow-v0.3. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const [dim, width] = shapeOf(tensors, "context_embedder.weight", 2) as [number, number];
  return {
    _class_name: TRANSFORMER.className,
    in_channels: shapeOf(tensors, "pos_embed.proj.weight", 2)[1]! / PATCH_SIDE ** 2,
    num_mmdit_layers: countModules(tensors, "joint_transformer_blocks."),
    num_single_dit_layers: countModules(tensors, "single_transformer_blocks."),
    attention_head_dim: HEAD_DIM,
    num_attention_heads: dim / HEAD_DIM,
    joint_attention_dim: width,
    caption_projection_dim: dim,
    pos_embed_max_size: shapeOf(tensors, "pos_embed.pos_embed", 3)[1]!,
  };
}

/** Single files. */
export const AURAFLOW_FILES: FamilyFiles = {
  formats: [TRANSFORMER, UMT5_FORMAT, SD_VAE_FORMAT],
  defaults: () => ({
    className: "AuraFlowPipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 1.73,
    },
    vae: { scaling_factor: 0.13025 },
    repositories: ["fal/AuraFlow-v0.3", "fal/AuraFlow", "purplesmartai/pony-v7-base"],
  }),
};
