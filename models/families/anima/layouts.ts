/** Anima in single files. Source of the names: Cosmos-Predict2's code, and diffusers' `_convert_non_diffusers_anima_lora_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { WAN_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed, renamedIn } from "../../layouts.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3.ts";
import { PATCH_SIDE } from "./config.ts";

const [THEIRS, OURS] = ["blocks.*", "transformer_blocks.*"];

/** The names of Cosmos-Predict2's code, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_ANIMA: Layout = {
  name: "original Anima",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "net.", "model."],
  entries: [
    renamed("x_embedder.proj.1", "patch_embed.proj"),
    ...renamedIn(
      [["linear_1", "linear_1"], ["linear_2", "linear_2"]],
      "t_embedder.1",
      "time_embed.t_embedder",
    ),
    renamed("t_embedding_norm", "time_embed.norm"),
    ...[["self_attn", "attn1"], ["cross_attn", "attn2"]].flatMap(([theirs, ours]) =>
      renamedIn(
        [
          ...[["q_proj", "to_q"], ["k_proj", "to_k"], ["v_proj", "to_v"]] as const,
          ...[["output_proj", "to_out.0"], ["q_norm", "norm_q"], ["k_norm", "norm_k"]] as const,
        ],
        `${THEIRS}.${theirs}`,
        `${OURS}.${ours}`,
      )
    ),
    ...[["self_attn", "norm1"], ["cross_attn", "norm2"], ["mlp", "norm3"]].flatMap((
      [theirs, ours],
    ) =>
      renamedIn(
        [["1", "linear_1"], ["2", "linear_2"]],
        `${THEIRS}.adaln_modulation_${theirs}`,
        `${OURS}.${ours}`,
      )
    ),
    renamed(`${THEIRS}.mlp.layer1`, `${OURS}.ff.net.0.proj`),
    renamed(`${THEIRS}.mlp.layer2`, `${OURS}.ff.net.2`),
    ...renamedIn(
      [["1", "linear_1"], ["2", "linear_2"]],
      "final_layer.adaln_modulation",
      "norm_out",
    ),
    renamed("final_layer.linear", "proj_out"),
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "an Anima transformer",
  component: "transformer",
  className: "CosmosTransformer3DModel",
  architecture: "cosmos",
  namings: [
    {
      probes: ["blocks.0.adaln_modulation_self_attn.1.weight", "x_embedder.proj.1.weight"],
      layout: ORIGINAL_ANIMA,
    },
    { probes: ["transformer_blocks.0.norm1.linear_1.weight", "patch_embed.proj.weight"] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the published model's configuration. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const [headDim] = shapeOf(tensors, "transformer_blocks.0.attn1.norm_q.weight", 1) as [number];
  const [dim] = shape("patch_embed.proj");
  const channels = shape("proj_out")[0] / PATCH_SIDE ** 2;
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    out_channels: channels,
    num_attention_heads: dim / headDim,
    attention_head_dim: headDim,
    num_layers: countModules(tensors, "transformer_blocks."),
    mlp_ratio: shape("transformer_blocks.0.ff.net.0.proj")[0] / dim,
    text_embed_dim: shape("transformer_blocks.0.attn2.to_k")[1],
    adaln_lora_dim: shape("transformer_blocks.0.norm1.linear_1")[0],
    extra_pos_embed_type: null,
  };
}

const CONDITIONER: ComponentFormat = {
  name: "Anima's text conditioner",
  component: "text_encoder_2",
  className: "AnimaTextConditioner",
  namings: [
    { probes: ["blocks.0.cross_attn.q_proj.weight", "embed.weight", "out_proj.weight"] },
  ],
  config: (tensors) => {
    const [vocabulary, dim] = shapeOf(tensors, "embed.weight", 2) as [number, number];
    const headDim = shapeOf(tensors, "blocks.0.cross_attn.q_norm.weight", 1)[0]!;
    return {
      _class_name: CONDITIONER.className,
      source_dim: shapeOf(tensors, "blocks.0.cross_attn.k_proj.weight", 2)[1]!,
      target_dim: dim,
      model_dim: dim,
      num_layers: countModules(tensors, "blocks."),
      num_attention_heads: dim / headDim,
      mlp_ratio: shapeOf(tensors, "blocks.0.mlp.0.weight", 2)[0]! / dim,
      target_vocab_size: vocabulary,
    };
  },
};

const ADAPTER = ["diffusion_model.llm_adapter.", "lora_unet_llm_adapter_", "text_conditioner."];

export const ANIMA_LORA = {
  transformer: { family: "Anima", layouts: [ORIGINAL_ANIMA] },
  textEncoder: "Qwen3",
  textEncoder2: "Anima's text conditioner",
  textEncoder2Layouts: [{ name: "llm_adapter", prefixes: ADAPTER, entries: [] }],
};

/** Single files, which hold the text conditioner too, but no tokenizer. */
export const ANIMA_FILES: FamilyFiles = {
  formats: [TRANSFORMER, CONDITIONER, QWEN3_FORMAT, WAN_VAE_FORMAT],
  defaults: () => ({
    className: "AnimaModularPipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
      use_dynamic_shifting: false,
    },
    needs: ["text_encoder_2"],
    repositories: ["circlestone-labs/Anima-Base-v1.0-Diffusers"],
  }),
};
