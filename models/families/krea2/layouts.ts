/** Krea 2 in single files. Source of the names: diffusers' `convert_krea2_transformer_checkpoint_to_diffusers`. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { WAN_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { reshaped } from "../../checkpoints/derived_view.ts";
import { viewLayout } from "../../checkpoints/layout_view.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";
import { QWEN3_VL_FORMAT } from "../../text_encoders/qwen3_vl.ts";
import { textLayers } from "./config.ts";

function block(theirs: string, ours: string): LayoutEntry[] {
  return [
    ...renamedIn(
      [
        ...[["wq", "to_q"], ["wk", "to_k"], ["wv", "to_v"], ["wo", "to_out.0"]] as const,
        ...[["gate", "to_gate"], ["qknorm.qnorm.scale", "norm_q.weight"]] as const,
        ["qknorm.knorm.scale", "norm_k.weight"],
      ],
      `${theirs}.attn`,
      `${ours}.attn`,
    ),
    ...renamedIn(["gate", "up", "down"].map((name) => [name, name]), `${theirs}.mlp`, `${ours}.ff`),
    renamed(`${theirs}.prenorm.scale`, `${ours}.norm1.weight`),
    renamed(`${theirs}.postnorm.scale`, `${ours}.norm2.weight`),
  ];
}

/** Krea's names, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_KREA2: Layout = {
  name: "original Krea 2",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    renamed("first", "img_in"),
    renamed("tmlp.0", "time_embed.linear_1"),
    renamed("tmlp.2", "time_embed.linear_2"),
    renamed("tproj.1", "time_mod_proj"),
    renamed("txtmlp.0.scale", "txt_in.norm.weight"),
    renamed("txtmlp.1", "txt_in.linear_1"),
    renamed("txtmlp.3", "txt_in.linear_2"),
    renamed("txtfusion.projector", "text_fusion.projector"),
    ...["layerwise_blocks", "refiner_blocks"].flatMap((stack) =>
      block(`txtfusion.${stack}.*`, `text_fusion.${stack}.*`)
    ),
    ...block("blocks.*", "transformer_blocks.*"),
    renamed("blocks.*.mod.lin", "transformer_blocks.*.scale_shift_table"),
    renamed("last.linear", "final_layer.linear"),
    renamed("last.norm.scale", "final_layer.norm.weight"),
    renamed("last.modulation.lin", "final_layer.scale_shift_table"),
  ],
};

/** There the six vectors of a block's table lie in one row. */
function originalView(tensors: TensorSource): TensorSource {
  const renamed = viewLayout(tensors, ORIGINAL_KREA2);
  return reshaped(
    renamed,
    (name, [size, ...others]) =>
      /^transformer_blocks\.\d+\.scale_shift_table$/.test(name) && others.length === 0
        ? [6, size! / 6]
        : undefined,
  );
}

const TRANSFORMER: ComponentFormat = {
  name: "a Krea 2 transformer",
  component: "transformer",
  className: "Krea2Transformer2DModel",
  architecture: "krea2",
  namings: [
    { probes: ["txtfusion.projector.weight", "first.weight"], view: originalView },
    { probes: ["text_fusion.projector.weight", "img_in.weight"] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the defaults of diffusers, which the published models have. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const heads = (block: string) => {
    const [headDim] = shapeOf(tensors, `${block}.attn.norm_q.weight`, 1) as [number];
    const [queries, keys] = ["to_q", "to_k"].map((name) => shape(`${block}.attn.${name}`)[0]);
    return { headDim, queries: queries! / headDim, keys: keys! / headDim };
  };
  const [image, text] = [heads("transformer_blocks.0"), heads("text_fusion.refiner_blocks.0")];
  return {
    _class_name: TRANSFORMER.className,
    in_channels: shape("img_in")[1],
    num_layers: countModules(tensors, "transformer_blocks."),
    attention_head_dim: image.headDim,
    num_attention_heads: image.queries,
    num_key_value_heads: image.keys,
    intermediate_size: shape("transformer_blocks.0.ff.gate")[0],
    timestep_embed_dim: shape("time_embed.linear_1")[1],
    text_hidden_dim: shape("txt_in.linear_1")[1],
    num_text_layers: shape("text_fusion.projector")[1],
    text_num_attention_heads: text.queries,
    text_num_key_value_heads: text.keys,
    text_intermediate_size: shape("text_fusion.refiner_blocks.0.ff.gate")[0],
    num_layerwise_text_blocks: countModules(tensors, "text_fusion.layerwise_blocks."),
    num_refiner_text_blocks: countModules(tensors, "text_fusion.refiner_blocks."),
  };
}

/** Single files, which only their names tell apart: Krea 2 Turbo's have `turbo` in them. */
export const KREA2_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_VL_FORMAT, WAN_VAE_FORMAT],
  defaults: ({ num_text_layers }, path) => {
    const isDistilled = /turbo/i.test(basename(path));
    const repositories = ["krea/Krea-2-Turbo", "krea/Krea-2-Raw"];
    return {
      className: "Krea2Pipeline",
      settings: {
        is_distilled: isDistilled,
        text_encoder_select_layers: textLayers(Number(num_text_layers)),
      },
      scheduler: {
        _class_name: "FlowMatchEulerDiscreteScheduler",
        num_train_timesteps: 1000,
        shift: 1,
        time_shift_type: "exponential",
        use_dynamic_shifting: true,
        base_shift: 0.5,
        max_shift: 1.15,
        base_image_seq_len: 256,
        max_image_seq_len: 6400,
      },
      repositories: isDistilled ? repositories : repositories.reverse(),
    };
  },
};
