/** Wan in single files. Source of the names: diffusers' `convert_wan_transformer_to_diffusers`, the Wan team's code. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { WAN_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { CLIP_VISION_FORMAT } from "../../image_encoders/clip_vision.ts";
import { UMT5_FORMAT } from "../../text_encoders/t5.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";

type Names = readonly (readonly [theirs: string, ours: string])[];

const ATTENTION: Names = [
  ["q", "to_q"],
  ["k", "to_k"],
  ["v", "to_v"],
  ["o", "to_out.0"],
  ["norm_q", "norm_q"],
  ["norm_k", "norm_k"],
  ["k_img", "add_k_proj"],
  ["v_img", "add_v_proj"],
  ["norm_k_img", "norm_added_k"],
];

const AROUND_BLOCKS: readonly LayoutEntry[] = [
  ...["text", "time"].flatMap((kind) =>
    renamedIn(
      [["0", "linear_1"], ["2", "linear_2"]],
      `${kind}_embedding`,
      `condition_embedder.${kind}_embedder`,
    )
  ),
  renamed("time_projection.1", "condition_embedder.time_proj"),
  ...renamedIn(
    [
      ["proj.0", "norm1"],
      ["proj.1", "ff.net.0.proj"],
      ["proj.3", "ff.net.2"],
      ["proj.4", "norm2"],
      ["emb_pos", "pos_embed"],
    ],
    "img_emb",
    "condition_embedder.image_embedder",
  ),
  renamed("head.head", "proj_out"),
  renamed("head.modulation", "scale_shift_table"),
  renamed("patch_embedding", "patch_embedding"),
];

/** The names of the Wan team, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_WAN: Layout = {
  name: "original Wan",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...["blocks", "vace_blocks"].flatMap((list) => blockEntries(list)),
    renamed("vace_blocks.*.before_proj", "vace_blocks.*.proj_in"),
    renamed("vace_blocks.*.after_proj", "vace_blocks.*.proj_out"),
    renamed("vace_patch_embedding", "vace_patch_embedding"),
    ...AROUND_BLOCKS,
  ],
};

/** The names of diffusers' Wan-Animate-2: the Wan team's, but for the layers of attention. */
export const ANIMATE_WAN: Layout = {
  ...ORIGINAL_WAN,
  name: "diffusers' Wan-Animate-2",
  entries: [
    ...blockEntries("blocks", { attention: ATTENTION.map(([, ours]) => [ours, ours]) }),
    ...AROUND_BLOCKS,
  ],
};

/** The names of Wan-Animate-2's own code, in which each block lies in another module. */
const ORIGINAL_ANIMATE: Layout = {
  ...ORIGINAL_WAN,
  name: "original Wan-Animate-2",
  entries: [...blockEntries("blocks", { inside: ".block" }), ...AROUND_BLOCKS],
};

export function hasAnimateNames(tensors: TensorSource): boolean {
  return tensors.find("blocks.0.self_attn.to_q.weight") !== undefined;
}

/** The blocks of a list; `inside` stands between a block's number and its modules. */
function blockEntries(
  list: string,
  { attention = ATTENTION, inside = "" }: {
    readonly attention?: Names;
    readonly inside?: string;
  } = {},
): LayoutEntry[] {
  const theirs = `${list}.*${inside}`;
  return [
    ...[["self_attn", "attn1"], ["cross_attn", "attn2"]].flatMap(([module, ours]) =>
      renamedIn(attention, `${theirs}.${module}`, `${list}.*.${ours}`)
    ),
    // The two norms change places: the one before cross-attention is their third and diffusers' second.
    renamed(`${theirs}.norm3`, `${list}.*.norm2`),
    renamed(`${theirs}.ffn.0`, `${list}.*.ffn.net.0.proj`),
    renamed(`${theirs}.ffn.2`, `${list}.*.ffn.net.2`),
    renamed(`${theirs}.modulation`, `${list}.*.scale_shift_table`),
  ];
}

/** Head size of all published checkpoints; the shapes of weights do not tell it. */
const HEAD_DIM = 128;

/** Latent channels of Wan 2.2's autoencoder, for which only TI2V was made. */
const TI2V_CHANNELS = 48;

/** Channels of all heads together from which on checkpoints were made for 720p. */
const LARGE_DIM = 3072;

/** Channels beside the sample that a transformer sees frames in: their latents, and a mask of four. */
const FRAME_CHANNELS = 36;

const CONTROL_LAYER = "vace_blocks.0.proj_out.weight";

const NAMINGS: Pick<ComponentFormat, "component" | "namings" | "config"> = {
  component: "transformer",
  namings: [
    {
      probes: ["blocks.0.self_attn.q.weight", "blocks.0.cross_attn.q.weight", "head.modulation"],
      layout: ORIGINAL_WAN,
    },
    {
      probes: [
        "condition_embedder.time_proj.weight",
        "blocks.0.attn2.to_q.weight",
        "patch_embedding.weight",
      ],
    },
  ],
  config: transformerConfig,
};

const CONTROLLED: ComponentFormat = {
  ...NAMINGS,
  name: "a Wan VACE transformer",
  className: "WanVACETransformer3DModel",
  architecture: "wan",
  fits: (tensors) => tensors.find(CONTROL_LAYER) !== undefined,
};

const TRANSFORMER: ComponentFormat = {
  ...NAMINGS,
  name: "a Wan transformer",
  className: "WanTransformer3DModel",
  architecture: "wan",
};

const ANIMATE: ComponentFormat = {
  ...NAMINGS,
  name: "a Wan-Animate-2 transformer",
  className: "WanAnimate2Transformer3DModel",
  architecture: "wan",
  namings: [
    { probes: ["blocks.0.self_attn.to_q.weight", "head.modulation"], layout: ANIMATE_WAN },
    {
      probes: ["blocks.0.block.self_attn.q.weight", "head.modulation"],
      layout: ORIGINAL_ANIMATE,
    },
  ],
};

function transformerConfig(tensors: TensorSource): JsonObject {
  const motion = "motion_encoder.dec.direction.weight";
  if (tensors.find(motion)) {
    throw new TypeError(
      `Cannot use "${tensors.path}": it has a tensor "${motion}", as Animate has, which is not supported`,
    );
  }
  const [dim, inChannels, ...patch] = shapeOf(tensors, "patch_embedding.weight", 5) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const embedder = "condition_embedder.text_embedder.linear_1.weight";
  const image = tensors.find("condition_embedder.image_embedder.ff.net.0.proj.weight");
  const imageDim = image?.shape[1] ?? null;
  const layers = countModules(tensors, "blocks.");
  return {
    ...controlConfig(tensors, layers),
    patch_size: patch,
    num_attention_heads: dim / HEAD_DIM,
    attention_head_dim: HEAD_DIM,
    in_channels: inChannels,
    out_channels: shapeOf(tensors, "proj_out.weight", 2)[0]! / patch.reduce((a, b) => a * b),
    text_dim: shapeOf(tensors, embedder, 2)[1]!,
    freq_dim: shapeOf(tensors, "condition_embedder.time_embedder.linear_1.weight", 2)[1]!,
    ffn_dim: shapeOf(tensors, "blocks.0.ffn.net.0.proj.weight", 2)[0]!,
    num_layers: layers,
    cross_attn_norm: tensors.find("blocks.0.norm2.weight") !== undefined,
    image_dim: imageDim,
    added_kv_proj_dim: imageDim === null ? null : dim,
    pos_embed_seq_len: tensors.find("condition_embedder.image_embedder.pos_embed")?.shape[1] ??
      null,
  };
}

/** Class, and where the control comes in: evenly over the layers, as in all published models. */
function controlConfig(tensors: TensorSource, layers: number): JsonObject {
  if (!tensors.find(CONTROL_LAYER)) return { _class_name: TRANSFORMER.className };
  const blocks = countModules(tensors, "vace_blocks.");
  const step = Math.ceil(layers / blocks);
  return {
    _class_name: CONTROLLED.className,
    vace_layers: Array.from({ length: blocks }, (_, i) => i * step),
    vace_in_channels: shapeOf(tensors, "vace_patch_embedding.weight", 5)[1]!,
  };
}

/** Shifts of the published models: 3 for 480p, 5 for 720p, 16 for first and last frames; boundaries of Wan 2.2 A14B. */
function defaults(
  transformer: JsonObject,
  path: string,
  hasSecond = false,
): FamilyDefaults {
  if (isNamedAnimate(path, transformer)) return animateDefaults();
  const isTi2v = transformer["in_channels"] === TI2V_CHANNELS;
  const seesFrames = transformer["in_channels"] === FRAME_CHANNELS;
  const seesImages = typeof transformer["image_dim"] === "number";
  const seesBoth = typeof transformer["pos_embed_seq_len"] === "number";
  const isControlled = transformer["_class_name"] === CONTROLLED.className;
  const dim = Number(transformer["num_attention_heads"]) * HEAD_DIM;
  const isLarge = dim >= LARGE_DIM;
  return {
    className: isControlled
      ? "WanVACEPipeline"
      : seesFrames
      ? "WanImageToVideoPipeline"
      : "WanPipeline",
    settings: {
      expand_timesteps: isTi2v,
      boundary_ratio: hasSecond ? (seesFrames ? 0.9 : 0.875) : null,
    },
    scheduler: {
      _class_name: "UniPCMultistepScheduler",
      num_train_timesteps: 1000,
      solver_order: 2,
      prediction_type: "flow_prediction",
      use_flow_sigmas: true,
      flow_shift: seesBoth ? 16 : isLarge ? 5 : 3,
    },
    ...(seesImages && { needs: ["image_encoder"] }),
    repositories: isTi2v
      ? ["Wan-AI/Wan2.2-TI2V-5B-Diffusers"]
      : seesImages
      ? ["Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers"]
      : isLarge
      ? ["Wan-AI/Wan2.1-T2V-14B-Diffusers", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"]
      : ["Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Wan-AI/Wan2.1-T2V-14B-Diffusers"],
  };
}

export const WAN_FILES: FamilyFiles = {
  formats: [CONTROLLED, TRANSFORMER, UMT5_FORMAT, CLIP_VISION_FORMAT, WAN_VAE_FORMAT],
  defaults,
};

/** A file with Wan's own names has the tensors of Wan 2.1 I2V, so that only its name tells Wan-Animate-2. */
function isNamedAnimate(path: string, transformer: JsonObject): boolean {
  return /animate[-_. ]?2/i.test(basename(path)) && typeof transformer["image_dim"] === "number";
}

/** Source: `scheduler_config.json` of the published model. */
function animateDefaults(): FamilyDefaults {
  return {
    className: "WanAnimate2Pipeline",
    settings: {},
    scheduler: {
      _class_name: "DPMSolverMultistepScheduler",
      num_train_timesteps: 1000,
      prediction_type: "flow_prediction",
      use_flow_sigmas: true,
      flow_shift: 5,
    },
    needs: ["image_encoder"],
    repositories: [
      "Wan-AI/Wan2.2-Animate-2-14B-Diffusers",
      "Wan-AI/Wan2.2-Animate-2-14B-Distilled-Diffusers",
    ],
  };
}

export const ANIMATE_FILES: FamilyFiles = {
  formats: [ANIMATE, UMT5_FORMAT, CLIP_VISION_FORMAT, WAN_VAE_FORMAT],
  defaults: animateDefaults,
};
