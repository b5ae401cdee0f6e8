/**
 * FLUX.1 in single files. Source of the names: diffusers' `convert_flux_transformer_checkpoint_to_diffusers`, Black Forest
 * Labs' own code, and `_convert_xlabs_flux_lora_to_diffusers`.
 */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  doubleStreamSizes,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { CLIP_TEXT_FORMAT } from "../../text_encoders/clip_formats.ts";
import { T5_FORMAT } from "../../text_encoders/t5.ts";
import { type Layout, type LayoutEntry, renamed, scaleNorms } from "../../layouts.ts";
import { KONTEXT } from "./config.ts";

const [DOUBLE, SINGLE] = ["transformer_blocks.*", "single_transformer_blocks.*"];
const IMAGE = ["to_q", "to_k", "to_v"].map((name) => `${DOUBLE}.attn.${name}`);
const TEXT = ["add_q_proj", "add_k_proj", "add_v_proj"].map((name) => `${DOUBLE}.attn.${name}`);
const ALL = ["to_q", "to_k", "to_v"].map((name) => `${SINGLE}.attn.${name}`);

/** The names of Black Forest Labs, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_FLUX1: Layout = {
  name: "original FLUX.1",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    renamed("img_in", "x_embedder"),
    renamed("txt_in", "context_embedder"),
    ...embedder("time_in", "timestep_embedder"),
    ...embedder("guidance_in", "guidance_embedder"),
    ...embedder("vector_in", "text_embedder"),
    ...stream("img", IMAGE, ["norm_q", "norm_k"], "to_out.0", "ff", "norm1"),
    ...stream(
      "txt",
      TEXT,
      ["norm_added_q", "norm_added_k"],
      "to_add_out",
      "ff_context",
      "norm1_context",
    ),
    {
      theirs: "single_blocks.*.linear1",
      ours: [...ALL, `${SINGLE}.proj_mlp`],
      shares: [1, 1, 1, 4],
    },
    renamed("single_blocks.*.linear2", `${SINGLE}.proj_out`),
    renamed("single_blocks.*.modulation.lin", `${SINGLE}.norm.linear`),
    ...scaleNorms("single_blocks.*.norm", `${SINGLE}.attn`, ["norm_q", "norm_k"]),
    // There the shift comes first.
    { theirs: "final_layer.adaLN_modulation.1", ours: ["norm_out.linear"], swapsHalves: true },
    renamed("final_layer.linear", "proj_out"),
  ],
};

/** Norms of heads whose parameter is called `weight`, as newer models of the line have them. */
export const FLUX1_HEAD_NORMS: readonly LayoutEntry[] = [
  ...headNorms("double_blocks.*.img_attn.norm", `${DOUBLE}.attn`, ["norm_q", "norm_k"]),
  ...headNorms("double_blocks.*.txt_attn.norm", `${DOUBLE}.attn`, ["norm_added_q", "norm_added_k"]),
  ...headNorms("single_blocks.*.norm", `${SINGLE}.attn`, ["norm_q", "norm_k"]),
];

function headNorms(
  theirs: string,
  ours: string,
  [query, key]: readonly [query: string, key: string],
): LayoutEntry[] {
  return [
    renamed(`${theirs}.query_norm`, `${ours}.${query}`),
    renamed(`${theirs}.key_norm`, `${ours}.${key}`),
  ];
}

/** LoRAs of XLabs name the processors of attention. */
export const XLABS_FLUX1: Layout = {
  name: "XLabs",
  prefixes: [],
  entries: [
    { theirs: "double_blocks.*.processor.qkv_lora1", ours: IMAGE },
    { theirs: "double_blocks.*.processor.qkv_lora2", ours: TEXT },
    renamed("double_blocks.*.processor.proj_lora1", `${DOUBLE}.attn.to_out.0`),
    renamed("double_blocks.*.processor.proj_lora2", `${DOUBLE}.attn.to_add_out`),
    { theirs: "single_blocks.*.processor.qkv_lora", ours: ALL },
    renamed("single_blocks.*.processor.proj_lora", `${SINGLE}.proj_out`),
  ],
};

function embedder(theirs: string, ours: string): LayoutEntry[] {
  return [
    renamed(`${theirs}.in_layer`, `time_text_embed.${ours}.linear_1`),
    renamed(`${theirs}.out_layer`, `time_text_embed.${ours}.linear_2`),
  ];
}

function stream(
  theirs: string,
  projections: readonly string[],
  normNames: readonly [query: string, key: string],
  output: string,
  feedForward: string,
  modulation: string,
): LayoutEntry[] {
  const block = `double_blocks.*.${theirs}`;
  return [
    renamed(`${block}_mod.lin`, `${DOUBLE}.${modulation}.linear`),
    { theirs: `${block}_attn.qkv`, ours: projections },
    ...scaleNorms(`${block}_attn.norm`, `${DOUBLE}.attn`, normNames),
    renamed(`${block}_attn.proj`, `${DOUBLE}.attn.${output}`),
    renamed(`${block}_mlp.0`, `${DOUBLE}.${feedForward}.net.0.proj`),
    renamed(`${block}_mlp.2`, `${DOUBLE}.${feedForward}.net.2`),
  ];
}

/** What ControlNets have and transformers have not: those of diffusers, and those of XLabs and MistoLine. */
const [CONTROL_EMBEDDER, HINT_EMBEDDER] = [
  "controlnet_x_embedder.weight",
  "pos_embed_input.weight",
];

const TRANSFORMER: ComponentFormat = {
  name: "a FLUX.1 transformer",
  component: "transformer",
  className: "FluxTransformer2DModel",
  architecture: "flux",
  namings: [
    {
      probes: ["double_blocks.0.img_mod.lin.weight", "vector_in.in_layer.weight"],
      layout: ORIGINAL_FLUX1,
    },
    {
      probes: [
        "time_text_embed.text_embedder.linear_1.weight",
        "single_transformer_blocks.0.proj_mlp.weight",
      ],
    },
  ],
  fits: (tensors) => [CONTROL_EMBEDDER, HINT_EMBEDDER].every((name) => !tensors.find(name)),
  config: transformerConfig,
};

const CONTROLNET: ComponentFormat = {
  name: "a ControlNet for FLUX.1",
  component: "controlnet",
  className: "FluxControlNetModel",
  namings: [
    { probes: [CONTROL_EMBEDDER, "time_text_embed.text_embedder.linear_1.weight"] },
    { probes: [HINT_EMBEDDER, "double_blocks.0.img_mod.lin.weight"], layout: ORIGINAL_FLUX1 },
  ],
  config: (tensors) => ({
    ...sizesOf(tensors),
    _class_name: CONTROLNET.className,
    num_mode: tensors.find("controlnet_mode_embedder.weight")?.shape[0] ?? null,
    // Those of XLabs read the picture by convolutions, under their own names and those of diffusers.
    conditioning_embedding_channels:
      ["input_hint_block.0.weight", "input_hint_block.conv_in.weight"]
        .map((name) => tensors.find(name)?.shape[0]).find((channels) => channels !== undefined) ??
        null,
  }),
};

/** Source of what shapes do not tell: transformer/config.json of FLUX.1. */
function transformerConfig(tensors: TensorSource): JsonObject {
  return {
    ...sizesOf(tensors),
    _class_name: TRANSFORMER.className,
    out_channels: shapeOf(tensors, "proj_out.weight", 2)[0]!,
  };
}

function sizesOf(tensors: TensorSource): JsonObject {
  const embedder = "time_text_embed";
  return {
    ...doubleStreamSizes(tensors),
    pooled_projection_dim: shapeOf(tensors, `${embedder}.text_embedder.linear_1.weight`, 2)[1]!,
    guidance_embeds: tensors.find(`${embedder}.guidance_embedder.linear_1.weight`) !== undefined,
    axes_dims_rope: [16, 56, 56],
  };
}

/** Shapes tell Fill from dev, and Canny with Depth, but not Kontext; the names of its files do. */
function defaults(transformer: JsonObject, path: string): FamilyDefaults {
  const isDev = transformer["guidance_embeds"] === true;
  const isKontext = isDev && /kontext/i.test(basename(path));
  const beside = Number(transformer["in_channels"]) / Number(transformer["out_channels"]);
  const isSteered = beside === 2;
  const isFill = beside > 1 && !isSteered;
  const names = isSteered
    ? ["Canny-dev", "Depth-dev", "dev", "schnell"]
    : isFill
    ? ["Fill-dev", "dev", "schnell"]
    : isKontext
    ? ["Kontext-dev", "dev", "schnell"]
    : isDev
    ? ["dev", "Krea-dev", "Kontext-dev", "schnell"]
    : ["schnell", "dev"];
  return {
    className: isSteered
      ? "FluxControlPipeline"
      : isFill
      ? "FluxFillPipeline"
      : isKontext
      ? KONTEXT[0]!
      : "FluxPipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      base_image_seq_len: 256,
      max_image_seq_len: 4096,
      base_shift: 0.5,
      max_shift: 1.15,
      ...(isDev
        ? { shift: 3, use_dynamic_shifting: true }
        : { shift: 1, use_dynamic_shifting: false }),
    },
    needs: ["text_encoder_2"],
    repositories: names.map((name) => `black-forest-labs/FLUX.1-${name}`),
  };
}

export const FLUX1_FILES: FamilyFiles = {
  formats: [TRANSFORMER, CONTROLNET, CLIP_TEXT_FORMAT, T5_FORMAT, FLUX1_VAE_FORMAT],
  defaults,
};

export const FLUX1_LORA = {
  transformer: { family: "FLUX.1", layouts: [ORIGINAL_FLUX1, XLABS_FLUX1] },
  textEncoder: "CLIP",
  textEncoderLayouts: [{ name: "CLIP", prefixes: ["text_model.", "text_model_"], entries: [] }],
  textEncoder2: "T5",
};
