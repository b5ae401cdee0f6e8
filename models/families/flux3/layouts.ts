/** FLUX.3 in single files. Source of the names: diffusers' `convert_flux3_transformer_checkpoint_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn, scaleNorms } from "../../layouts.ts";
import { QWEN3_VL_FORMAT } from "../../text_encoders/qwen3_vl.ts";

function block(theirs: string, ours: string): LayoutEntry[] {
  return [
    ...renamedIn(
      [
        ...[["q_proj", "attn.to_q"], ["k_proj", "attn.to_k"], ["v_proj", "attn.to_v"]] as const,
        ...[["attn_out", "attn.to_out.0"], ["mlp_in", "ff.linear_in"]] as const,
        ["mlp_out", "ff.linear_out"],
      ],
      theirs,
      ours,
    ),
    ...scaleNorms(`${theirs}.norm`, `${ours}.attn`, ["norm_q", "norm_k"]),
  ];
}

const IMAGES = ["image", "image_cond"] as const;

/** The names of Black Forest Labs, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_FLUX3: Layout = {
  name: "original FLUX.3",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...IMAGES.map((mode) => renamed(`emb_in.${mode}`, `x_embedders.${mode}`)),
    renamed("txt_in", "context_embedder"),
    ...[["time_in", "timestep_embedder"], ["ref_time_in", "target_timestep_embedder"]].flatMap((
      [theirs, ours],
    ) => [
      renamed(`${theirs}.in_layer`, `${ours}.linear_1`),
      renamed(`${theirs}.out_layer`, `${ours}.linear_2`),
    ]),
    ...["early_stream_modulations", "single_stream_modulations"].flatMap((kind) =>
      [...IMAGES, "txt"].map((mode) => renamed(`${kind}.${mode}.lin`, `${kind}.${mode}.linear`))
    ),
    ...IMAGES.flatMap((mode) => block(`content_mode_blocks.${mode}.*`, `mode_blocks.${mode}.*`)),
    ...block("txt_mode_blocks.*", "txt_mode_blocks.*"),
    ...block("single_blocks.*", "single_transformer_blocks.*"),
    // There the shift comes first.
    {
      theirs: "final_layer.image.adaLN_modulation.1",
      ours: ["norm_out.linear"],
      swapsHalves: true,
    },
    renamed("final_layer.image.linear", "proj_out"),
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "a FLUX.3 transformer",
  component: "transformer",
  className: "Flux3Transformer2DModel",
  architecture: "flux3",
  namings: [
    {
      probes: [
        "early_stream_modulations.image.lin.weight",
        "content_mode_blocks.image.0.q_proj.weight",
      ],
      layout: ORIGINAL_FLUX3,
    },
    {
      probes: [
        "early_stream_modulations.image.linear.weight",
        "mode_blocks.image.0.attn.to_q.weight",
      ],
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the defaults of diffusers, which the published models have. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const [dim, channels] = shape("x_embedders.image");
  const [headDim] = shapeOf(tensors, "mode_blocks.image.0.attn.norm_q.weight", 1) as [number];
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    cond_in_channels: shape("x_embedders.image_cond")[1],
    num_layers: countModules(tensors, "mode_blocks.image."),
    num_single_layers: countModules(tensors, "single_transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shape("context_embedder")[1],
    timestep_channels: shape("timestep_embedder.linear_1")[1],
    mlp_ratio: shape("single_transformer_blocks.0.ff.linear_out")[1] / dim,
    flow_map: tensors.find("target_timestep_embedder.linear_1.weight") !== undefined,
  };
}

export const FLUX3_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_VL_FORMAT, FLUX2_VAE_FORMAT],
  defaults: ({ flow_map: isDistilled }) => {
    const repositories = ["flux-3-image-klein", "flux-3-image-klein-base"];
    if (!isDistilled) repositories.reverse();
    return {
      className: isDistilled ? "Flux3DistilledModularPipeline" : "Flux3ModularPipeline",
      settings: {},
      scheduler: {
        _class_name: "FlowMatchEulerDiscreteScheduler",
        num_train_timesteps: 1000,
        shift: 6.93,
      },
      repositories: repositories.map((name) => `black-forest-labs/${name}`),
    };
  },
};
