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
import type { Sd3Parts } from "./config.ts";

/** Heads where nothing normalises them, so that no shape tells their size. */
const HEAD_DIM = 64;

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
    {
      probes: ["pos_embed.pos_embed", "transformer_blocks.0.attn.add_q_proj.weight"],
    },
  ],
  config: transformerConfig,
};

function transformerConfig(tensors: TensorSource): JsonObject {
  const norm = "transformer_blocks.0.attn.norm_q.weight";
  const isNormed = tensors.find(norm) !== undefined;
  const headDim = isNormed ? shapeOf(tensors, norm, 1)[0]! : HEAD_DIM;
  const [dim, channels] = shapeOf(tensors, "pos_embed.proj.weight", 4) as [number, number];
  const layers = countModules(tensors, "transformer_blocks.");
  const [patchFeatures] = shapeOf(tensors, "proj_out.weight", 2) as [number];
  const isDual = (layer: number) =>
    tensors.find(`transformer_blocks.${layer}.attn2.to_q.weight`) !== undefined;
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    out_channels: patchFeatures / 4,
    num_layers: layers,
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shapeOf(tensors, "context_embedder.weight", 2)[1]!,
    caption_projection_dim: dim,
    pooled_projection_dim: shapeOf(
      tensors,
      "time_text_embed.text_embedder.linear_1.weight",
      2,
    )[1]!,
    // GGUF files may lack the first size, 1.
    pos_embed_max_size: Math.sqrt(
      elementCount(tensors.find("pos_embed.pos_embed")?.shape ?? []) / dim,
    ),
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
};
