/**
 * Stable Diffusion 3 in single files, and what LoRAs call the modules. Source of the names: diffusers'
 * `convert_sd3_transformer_checkpoint_to_diffusers`.
 */
import type { JsonObject } from "../../../hub/json_file.ts";
import { elementCount, type TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed, renamedIn } from "../../layouts.ts";
import { CLIP_TEXT_FORMAT, OPEN_CLIP_G_FORMAT } from "../../text_encoders/clip_formats.ts";
import { T5_FORMAT } from "../../text_encoders/t5.ts";
import { PATCH_SIDE, type Sd3Parts } from "./config.ts";

/** Heads where nothing normalises them, so that no shape tells their size. */
const HEAD_DIM = 64;
const LATENT_CHANNELS = 16;

const OURS = "transformer_blocks.*";
const IMAGE = "joint_blocks.*.x_block";
const TEXT = "joint_blocks.*.context_block";

/** The names of Stability AI, which ComfyUI, GGUF files and kohya's scripts keep, of a transformer of so many blocks. */
export function originalSd3(blocks: number): Layout {
  const last = `joint_blocks.${blocks - 1}.context_block.adaLN_modulation.1`;
  const attention = (theirs: string, ours: string, projections: string[], norms: string[]) => [
    { theirs: `${theirs}.qkv`, ours: projections.map((name) => `${ours}.${name}`) },
    renamed(`${theirs}.ln_q`, `${ours}.${norms[0]}`),
    renamed(`${theirs}.ln_k`, `${ours}.${norms[1]}`),
  ];
  const own = (name: string) => [
    ...attention(`${IMAGE}.${name}`, `${OURS}.${name}`, ["to_q", "to_k", "to_v"], [
      "norm_q",
      "norm_k",
    ]),
    renamed(`${IMAGE}.${name}.proj`, `${OURS}.${name}.to_out.0`),
  ];
  const mlp = [["fc1", "net.0.proj"], ["fc2", "net.2"]] as const;
  const embedder = [["0", "linear_1"], ["2", "linear_2"]] as const;
  return {
    name: "original SD 3",
    prefixes: ["model.diffusion_model.", "diffusion_model."],
    entries: [
      renamed("pos_embed", "pos_embed.pos_embed"),
      renamed("x_embedder.proj", "pos_embed.proj"),
      ...renamedIn(embedder, "t_embedder.mlp", "time_text_embed.timestep_embedder"),
      ...renamedIn(embedder, "y_embedder.mlp", "time_text_embed.text_embedder"),
      ...own("attn"),
      ...own("attn2"),
      ...attention(
        `${TEXT}.attn`,
        `${OURS}.attn`,
        ["add_q_proj", "add_k_proj", "add_v_proj"],
        ["norm_added_q", "norm_added_k"],
      ),
      renamed(`${TEXT}.attn.proj`, `${OURS}.attn.to_add_out`),
      ...renamedIn(mlp, `${IMAGE}.mlp`, `${OURS}.ff`),
      ...renamedIn(mlp, `${TEXT}.mlp`, `${OURS}.ff_context`),
      renamed(`${IMAGE}.adaLN_modulation.1`, `${OURS}.norm1.linear`),
      // Where nothing but a norm is modulated, the shift comes first there.
      {
        theirs: last,
        ours: [`transformer_blocks.${blocks - 1}.norm1_context.linear`],
        swapsHalves: true,
      },
      renamed(`${TEXT}.adaLN_modulation.1`, `${OURS}.norm1_context.linear`),
      { theirs: "final_layer.adaLN_modulation.1", ours: ["norm_out.linear"], swapsHalves: true },
      renamed("final_layer.linear", "proj_out"),
    ],
  };
}

/** The names of Stability AI in ControlNets, which have those of diffusers in part. */
const ORIGINAL_CONTROLNET: Layout = {
  name: "original ControlNet of SD 3.5",
  prefixes: [],
  entries: [
    {
      theirs: `${OURS}.attn.qkv`,
      ours: ["to_q", "to_k", "to_v"].map((name) => `${OURS}.attn.${name}`),
    },
    renamed(`${OURS}.attn.proj`, `${OURS}.attn.to_out.0`),
    renamed(`${OURS}.mlp.fc1`, `${OURS}.ff.net.0.proj`),
    renamed(`${OURS}.mlp.fc2`, `${OURS}.ff.net.2`),
    renamed(`${OURS}.adaLN_modulation.1`, `${OURS}.norm1.linear`),
  ],
};

const TABLE = "pos_embed.pos_embed";
const PICTURE_LAYER = "pos_embed_input.proj.weight";
const CONTEXT_LAYER = "context_embedder.weight";

const TRANSFORMER: ComponentFormat = {
  name: "a transformer of Stable Diffusion 3",
  component: "transformer",
  className: "SD3Transformer2DModel",
  architecture: "sd3",
  namings: [
    {
      probes: ["joint_blocks.0.context_block.attn.qkv.weight", "y_embedder.mlp.0.weight"],
      layout: (tensors) => originalSd3(countModules(tensors, "joint_blocks.")),
    },
    { probes: [TABLE, "transformer_blocks.0.attn.add_q_proj.weight"] },
  ],
  fits: (tensors) => tensors.find(PICTURE_LAYER) === undefined,
  config(tensors) {
    const [dim, in_channels] = shapeOf(tensors, "pos_embed.proj.weight", 4) as [number, number];
    return {
      ...sizesOf(tensors, dim),
      _class_name: TRANSFORMER.className,
      in_channels,
      out_channels: shapeOf(tensors, "proj_out.weight", 2)[0]! / PATCH_SIDE ** 2,
      joint_attention_dim: shapeOf(tensors, CONTEXT_LAYER, 2)[1]!,
      caption_projection_dim: dim,
    };
  },
};

const CONTROLNET: ComponentFormat = {
  name: "a ControlNet for Stable Diffusion 3",
  component: "controlnet",
  className: "SD3ControlNetModel",
  namings: [
    {
      probes: [PICTURE_LAYER, "transformer_blocks.0.attn.qkv.weight"],
      layout: ORIGINAL_CONTROLNET,
    },
    { probes: [PICTURE_LAYER, "transformer_blocks.0.attn.to_q.weight"] },
  ],
  config(tensors) {
    const [dim, channels] = shapeOf(tensors, PICTURE_LAYER, 4) as [number, number];
    const seesText = tensors.find(CONTEXT_LAYER) !== undefined;
    return {
      ...sizesOf(tensors, dim),
      _class_name: CONTROLNET.className,
      in_channels: LATENT_CHANNELS,
      extra_conditioning_channels: channels - LATENT_CHANNELS,
      joint_attention_dim: seesText ? shapeOf(tensors, CONTEXT_LAYER, 2)[1]! : null,
      use_pos_embed: tensors.find(TABLE) !== undefined,
      // Source of what shapes do not tell: the configurations of InstantX's and of Stability AI's.
      force_zeros_for_pooled_projection: seesText,
    };
  },
};

function sizesOf(tensors: TensorSource, dim: number): JsonObject {
  const block = "transformer_blocks.0.attn";
  const isNormed = tensors.find(`${block}.norm_q.weight`) !== undefined;
  const headDim = isNormed ? shapeOf(tensors, `${block}.norm_q.weight`, 1)[0]! : HEAD_DIM;
  const layers = countModules(tensors, "transformer_blocks.");
  const isDual = (layer: number) =>
    tensors.find(`transformer_blocks.${layer}.attn2.to_q.weight`) !== undefined;
  const table = tensors.find(TABLE);
  return {
    num_layers: layers,
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    pooled_projection_dim: shapeOf(
      tensors,
      "time_text_embed.text_embedder.linear_1.weight",
      2,
    )[1]!,
    // GGUF files may lack the first size, 1.
    pos_embed_max_size: table ? Math.sqrt(elementCount(table.shape) / dim) : null,
    dual_attention_layers: Array.from({ length: layers }, (_, layer) => layer).filter(isDual),
    qk_norm: isNormed ? "rms_norm" : null,
  };
}

function defaults(transformer: JsonObject, path: string): FamilyDefaults {
  const names = transformer["qk_norm"] === null
    ? ["3-medium-diffusers"]
    : (transformer["dual_attention_layers"] as number[]).length > 0
    ? ["3.5-medium", "3.5-large"]
    : /turbo/i.test(path)
    ? ["3.5-large-turbo", "3.5-large"]
    : ["3.5-large", "3.5-large-turbo"];
  return {
    className: "StableDiffusion3Pipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
    },
    // Source: vae/config.json. Its names and shapes are those of FLUX.1's.
    vae: { scaling_factor: 1.5305, shift_factor: 0.0609 },
    needs: ["text_encoder_2"],
    repositories: names.map((name) => `stabilityai/stable-diffusion-${name}`),
  };
}

export const SD3_FILES: FamilyFiles = {
  formats: [
    TRANSFORMER,
    CONTROLNET,
    CLIP_TEXT_FORMAT,
    OPEN_CLIP_G_FORMAT,
    { ...T5_FORMAT, component: "text_encoder_3" },
    FLUX1_VAE_FORMAT,
  ],
  defaults,
};

const CLIP_LAYOUTS = [{ name: "CLIP", prefixes: ["text_model.", "text_model_"], entries: [] }];

export const SD3_LORA = {
  transformer: {
    family: "SD 3",
    layouts: ({ transformer }: Sd3Parts) => [originalSd3(transformer.config.num_layers)],
  },
  textEncoder: "CLIP",
  textEncoderLayouts: CLIP_LAYOUTS,
  textEncoder2: "CLIP",
  textEncoder2Layouts: CLIP_LAYOUTS,
  textEncoder3: "T5",
  readsWords: true,
};
