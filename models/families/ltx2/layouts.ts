/** LTX-2 and LTX-2.3 in single files: the transformer, its connectors, or all of a model. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import {
  LTX2_AUDIO_VAE_FORMAT,
  LTX2_VIDEO_VAE_FORMAT,
  LTX2_VOCODER_FORMAT,
} from "../../autoencoders/ltx2/format.ts";
import { GEMMA3_FORMAT } from "../../text_encoders/gemma3_config.ts";
import { connectorLayout, ORIGINAL_LTX2 } from "./names.ts";

/** Heads of the published models, where no gates tell. */
const HEADS = 32;
/** Width of a head of the connectors of LTX-2.0. */
const CONNECTOR_HEAD = 128;

const TRANSFORMER: ComponentFormat = {
  name: "an LTX-2 transformer",
  component: "transformer",
  className: "LTX2VideoTransformer3DModel",
  architecture: "ltxv",
  namings: [
    {
      probes: ["audio_patchify_proj.weight", "av_ca_a2v_gate_adaln_single.linear.weight"],
      layout: ORIGINAL_LTX2,
    },
    { probes: ["audio_proj_in.weight", "av_cross_attn_video_a2v_gate.linear.weight"] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the configurations of the published models. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const has = (name: string) => tensors.find(name) !== undefined;
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const stream = (prefix: "" | "audio_") => {
    const [dim, channels] = shape(`${prefix}proj_in`);
    const gates = `transformer_blocks.0.${prefix}attn1.to_gate_logits`;
    const isGated = has(`${gates}.weight`);
    const heads = isGated ? shape(gates)[0] : HEADS;
    return {
      [`${prefix}in_channels`]: channels,
      [`${prefix}out_channels`]: shape(`${prefix}proj_out`)[0],
      [`${prefix}num_attention_heads`]: heads,
      [`${prefix}attention_head_dim`]: dim / heads,
      [`${prefix}cross_attention_dim`]: prefix ? dim : shape("transformer_blocks.0.attn2.to_k")[1],
      [`${prefix}gated_attn`]: isGated,
      [`${prefix}cross_attn_mod`]: has(`transformer_blocks.0.${prefix}prompt_scale_shift_table`),
      [`${prefix}ff_bias`]: has(`transformer_blocks.0.${prefix}ff.net.2.bias`),
    };
  };
  const hasProjection = has("caption_projection.linear_1.weight");
  return {
    _class_name: TRANSFORMER.className,
    ...stream(""),
    ...stream("audio_"),
    num_layers: countModules(tensors, "transformer_blocks."),
    use_prompt_embeddings: hasProjection,
    ...(hasProjection && { caption_channels: shape("caption_projection.linear_1")[1] }),
    rope_type: "split",
    perturbed_attn: has("transformer_blocks.0.attn1.to_gate_logits.weight"),
    use_prompt_adaln_single: !has("transformer_blocks.0.prompt_scale_shift_table") ||
      has("prompt_adaln.linear.weight"),
    use_keyframes_abs_pos_embedding: has("keyframes_abs_pos_embedding"),
  };
}

const PREFIXES = ["model.diffusion_model.", ""];

const CONNECTORS: ComponentFormat = {
  name: "LTX-2 connectors",
  component: "connectors",
  className: "LTX2TextConnectors",
  namings: [
    ...PREFIXES.flatMap((prefix) => {
      const probe = `${prefix}video_embeddings_connector.learnable_registers`;
      const projections = ["aggregate_embed", "video_aggregate_embed"];
      return projections.map((name) => ({
        probes: [probe, `text_embedding_projection.${name}.weight`],
        layout: connectorLayout(prefix),
      }));
    }),
    { probes: ["video_connector.learnable_registers", "audio_connector.learnable_registers"] },
  ],
  config: connectorsConfig,
};

function connectorsConfig(tensors: TensorSource): JsonObject {
  const has = (name: string) => tensors.find(name) !== undefined;
  const isApart = has("video_text_proj_in.weight");
  const projection = isApart ? "video_text_proj_in" : "text_proj_in";
  const [width, features] = shapeOf(tensors, `${projection}.weight`, 2) as [number, number];
  const connector = (modality: "video" | "audio") => {
    const [registers, dim] = shapeOf(
      tensors,
      `${modality}_connector.learnable_registers`,
      2,
    ) as [number, number];
    const gates = `${modality}_connector.transformer_blocks.0.attn1.to_gate_logits.weight`;
    const heads = tensors.find(gates)?.shape[0] ?? dim / CONNECTOR_HEAD;
    return {
      [`${modality}_connector_num_attention_heads`]: heads,
      [`${modality}_connector_attention_head_dim`]: dim / heads,
      [`${modality}_connector_num_layers`]: countModules(
        tensors,
        `${modality}_connector.transformer_blocks.`,
      ),
      [`${modality}_connector_num_learnable_registers`]: registers,
      [`${modality}_gated_attn`]: has(gates),
      ...(isApart && { [`${modality}_hidden_dim`]: dim }),
    };
  };
  // Where there is one projection for both, it gives the width of the text encoder.
  const states = isApart ? PUBLISHED_STATES : features / width;
  return {
    _class_name: CONNECTORS.className,
    ...connector("video"),
    ...connector("audio"),
    caption_channels: features / states,
    text_proj_in_factor: states,
    per_modality_projections: isApart,
    proj_bias: has(`${projection}.bias`),
    rope_type: "split",
  };
}

/** Sides of a kernel that makes so many times more channels; a factor of 3 is taken to be one and a half in the end. */
const SCALES: Readonly<Record<number, number>> = { 4: 2, 9: 1.5, 16: 4 };

const LATENT_UPSAMPLER: ComponentFormat = {
  name: "a latent upsampler of LTX-2",
  component: "latent_upsampler",
  className: "LTX2LatentUpsamplerModel",
  namings: [{
    probes: [
      "initial_conv.weight",
      "res_blocks.0.conv1.weight",
      "post_upsample_res_blocks.0.conv1.weight",
      "final_conv.weight",
    ],
  }],
  config(tensors) {
    const [mid, channels] = shapeOf(tensors, "initial_conv.weight", 5) as [number, number];
    const rational = tensors.find("upsampler.conv.weight");
    const [wide = 0, , ...kernel] = rational?.shape ?? tensors.find("upsampler.0.weight")?.shape ??
      [];
    const more = wide / mid;
    const isLonger = kernel.length === 3;
    return {
      _class_name: "LTX2LatentUpsamplerModel",
      in_channels: channels,
      mid_channels: mid,
      num_blocks_per_stage: countModules(tensors, "res_blocks."),
      spatial_upsample: more >= 4,
      temporal_upsample: isLonger,
      use_rational_resampler: rational !== undefined,
      ...(rational && { rational_spatial_scale: SCALES[more] ?? 0 }),
    };
  },
};

/** States of Gemma 3 12B. */
const PUBLISHED_STATES = 49;

export const LTX2_FILES: FamilyFiles = {
  formats: [
    ...[TRANSFORMER, CONNECTORS, GEMMA3_FORMAT, LTX2_VIDEO_VAE_FORMAT],
    { ...LTX2_AUDIO_VAE_FORMAT, component: "audio_vae" },
    { ...LTX2_VOCODER_FORMAT, component: "vocoder" },
    LATENT_UPSAMPLER,
  ],
  defaults: (transformer, path) => {
    const isDistilled = /distilled/i.test(basename(path));
    return {
      className: "LTX2Pipeline",
      settings: {},
      // Source: `scheduler_config.json` of the published models; distilled ones have sigmas of their own.
      scheduler: {
        _class_name: "FlowMatchEulerDiscreteScheduler",
        num_train_timesteps: 1000,
        ...isDistilled ? { shift: 1 } : {
          use_dynamic_shifting: true,
          base_image_seq_len: 1024,
          max_image_seq_len: 4096,
          base_shift: 0.95,
          max_shift: 2.05,
          shift_terminal: 0.1,
        },
      },
      needs: ["connectors", "audio_vae", "vocoder"],
      repositories: transformer["use_prompt_embeddings"] === true
        ? ["Lightricks/LTX-2"]
        : isDistilled
        ? ["diffusers/LTX-2.3-Distilled-Diffusers", "diffusers/LTX-2.3-Diffusers"]
        : ["diffusers/LTX-2.3-Diffusers", "diffusers/LTX-2.3-Distilled-Diffusers"],
    };
  },
};
