/** HunyuanVideo 1.5 in single files. Source of the names: diffusers' `convert_hunyuan_video1_5_to_diffusers.py`, ComfyUI's files. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { HUNYUAN_VIDEO_15_VAE_FORMAT } from "../../autoencoders/hunyuan_video_15/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { reshaped } from "../../checkpoints/derived_view.ts";
import { viewLayout } from "../../checkpoints/layout_view.ts";
import { SIGLIP_VISION_FORMAT } from "../../image_encoders/siglip_vision.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn, scaleNorms } from "../../layouts.ts";
import { QWEN2_5_VL_FORMAT } from "../../text_encoders/qwen2_5_vl.ts";
import { T5_FORMAT } from "../../text_encoders/t5.ts";
import { byteTokenizer } from "../../tokenizers/mod.ts";
import { IMAGE_CLASS, USUAL_GUIDER } from "./config.ts";

type Names = readonly (readonly [theirs: string, ours: string])[];

const joined = (theirs: string, ours: readonly string[]): LayoutEntry => ({ theirs, ours });

/** Names that all files share. */
const COMMON: readonly LayoutEntry[] = [
  renamed("img_in.proj", "x_embedder.proj"),
  renamed("cond_type_embedding", "cond_type_embed"),
  renamed("txt_in.input_embedder", "context_embedder.proj_in"),
  ...renamedIn(
    [["layernorm", "norm"], ["fc1", "linear_1"], ["fc2", "linear_2"], ["fc3", "linear_3"]],
    "byt5_in",
    "context_embedder_2",
  ),
  ...renamedIn(
    [["0", "norm_in"], ["1", "linear_1"], ["3", "linear_2"], ["4", "norm_out"]],
    "vision_in.proj",
    "image_embedder",
  ),
  renamed("final_layer.linear", "proj_out"),
  // There the shift comes first.
  { theirs: "final_layer.adaLN_modulation.1", ours: ["norm_out.linear"], swapsHalves: true },
];

const REFINER = [
  "txt_in.individual_token_refiner.blocks.*",
  "context_embedder.token_refiner.refiner_blocks.*",
] as const;
const EMBEDDERS: Names = [
  ["time_in", "time_embed.timestep_embedder"],
  ["time_r_in", "time_embed.timestep_embedder_r"],
  ["txt_in.t_embedder", "context_embedder.time_text_embed.timestep_embedder"],
];
const SUMMARY = "context_embedder.time_text_embed.text_embedder";
const REFINER_NAMES: Names = [
  ["norm1", "norm1"],
  ["norm2", "norm2"],
  ["adaLN_modulation.1", "norm_out.linear"],
];
const PREFIXES = ["model.diffusion_model.", "diffusion_model.", "model."];

function embedders([first, second]: readonly [first: string, second: string]): LayoutEntry[] {
  return EMBEDDERS.flatMap(([theirs, ours]) =>
    renamedIn([[first, "linear_1"], [second, "linear_2"]], theirs, ours)
  );
}

/** Of each stream its name there, what its layers of attention are called here, and its feed-forward. */
const STREAMS = [
  ["img", ["to_q", "to_k", "to_v"], "to_out.0", ["norm_q", "norm_k"], "norm1", "ff"],
  [
    "txt",
    ["add_q_proj", "add_k_proj", "add_v_proj"],
    "to_add_out",
    ["norm_added_q", "norm_added_k"],
    "norm1_context",
    "ff_context",
  ],
] as const;

const BLOCK = "transformer_blocks.*";

/** The names of Tencent's own files. */
export const ORIGINAL_HUNYUAN_VIDEO_15: Layout = {
  name: "original HunyuanVideo 1.5",
  prefixes: PREFIXES,
  entries: [
    ...COMMON,
    ...embedders(["mlp.0", "mlp.2"]),
    ...renamedIn(
      [["linear_1", "linear_1"], ["linear_2", "linear_2"]],
      "txt_in.c_embedder",
      SUMMARY,
    ),
    ...renamedIn(REFINER_NAMES, ...REFINER),
    joined(`${REFINER[0]}.self_attn_qkv`, ["q", "k", "v"].map((x) => `${REFINER[1]}.attn.to_${x}`)),
    ...renamedIn(
      [["self_attn_proj", "attn.to_out.0"], ["mlp.fc1", "ff.net.0.proj"], ["mlp.fc2", "ff.net.2"]],
      ...REFINER,
    ),
    ...STREAMS.flatMap(([stream, projections, output, norms, modulation, feedForward]) => {
      const theirs = `double_blocks.*.${stream}`;
      return [
        renamed(`${theirs}_mod.linear`, `${BLOCK}.${modulation}.linear`),
        ...["q", "k", "v"].map((name, i) =>
          renamed(`${theirs}_attn_${name}`, `${BLOCK}.attn.${projections[i]}`)
        ),
        // As trainers of HunyuanVideo 1 join them.
        joined(`${theirs}_attn_qkv`, projections.map((name) => `${BLOCK}.attn.${name}`)),
        ...["q", "k"].map((name, i) =>
          renamed(`${theirs}_attn_${name}_norm`, `${BLOCK}.attn.${norms[i]}`)
        ),
        renamed(`${theirs}_attn_proj`, `${BLOCK}.attn.${output}`),
        renamed(`${theirs}_mlp.fc1`, `${BLOCK}.${feedForward}.net.0.proj`),
        renamed(`${theirs}_mlp.fc2`, `${BLOCK}.${feedForward}.net.2`),
      ];
    }),
  ],
};

/** The names of ComfyUI's files, those of HunyuanVideo 1 and FLUX.1. */
export const COMFY_HUNYUAN_VIDEO_15: Layout = {
  name: "ComfyUI's HunyuanVideo 1.5",
  prefixes: PREFIXES,
  entries: [
    ...COMMON,
    ...embedders(["in_layer", "out_layer"]),
    ...renamedIn(
      [["in_layer", "linear_1"], ["out_layer", "linear_2"]],
      "txt_in.c_embedder",
      SUMMARY,
    ),
    ...renamedIn(REFINER_NAMES, ...REFINER),
    joined(`${REFINER[0]}.self_attn.qkv`, ["q", "k", "v"].map((x) => `${REFINER[1]}.attn.to_${x}`)),
    ...renamedIn(
      [["self_attn.proj", "attn.to_out.0"], ["mlp.0", "ff.net.0.proj"], ["mlp.2", "ff.net.2"]],
      ...REFINER,
    ),
    ...STREAMS.flatMap(([stream, projections, output, norms, modulation, feedForward]) => {
      const theirs = `double_blocks.*.${stream}`;
      return [
        renamed(`${theirs}_mod.lin`, `${BLOCK}.${modulation}.linear`),
        joined(`${theirs}_attn.qkv`, projections.map((name) => `${BLOCK}.attn.${name}`)),
        ...scaleNorms(`${theirs}_attn.norm`, `${BLOCK}.attn`, norms),
        ...["query_norm", "key_norm"].map((name, i) =>
          renamed(`${theirs}_attn.norm.${name}`, `${BLOCK}.attn.${norms[i]}`)
        ),
        renamed(`${theirs}_attn.proj`, `${BLOCK}.attn.${output}`),
        renamed(`${theirs}_mlp.0`, `${BLOCK}.${feedForward}.net.0.proj`),
        renamed(`${theirs}_mlp.2`, `${BLOCK}.${feedForward}.net.2`),
      ];
    }),
  ],
};

const PATCHES = "x_embedder.proj";

/** GGUF files have no five dimensions: their kernels of 1 x 1 x 1 have fewer. */
function withPatches(tensors: TensorSource): TensorSource {
  const rows = tensors.find(`${PATCHES}.bias`)?.shape[0];
  return reshaped(tensors, (name, shape) => {
    if (name !== `${PATCHES}.weight` || shape.length === 5 || rows === undefined) return undefined;
    const size = shape.reduce((product, side) => product * side, 1);
    return [rows, size / rows, 1, 1, 1];
  });
}

const GLYPHS = "byt5_in.fc1.weight";

const TRANSFORMER: ComponentFormat = {
  name: "a HunyuanVideo 1.5 transformer",
  component: "transformer",
  className: "HunyuanVideo15Transformer3DModel",
  architecture: "hyvid",
  namings: [
    {
      probes: [GLYPHS, "double_blocks.0.img_attn_q.weight"],
      view: (tensors) => withPatches(viewLayout(tensors, ORIGINAL_HUNYUAN_VIDEO_15)),
    },
    {
      probes: [GLYPHS, "double_blocks.0.img_attn.qkv.weight"],
      view: (tensors) => withPatches(viewLayout(tensors, COMFY_HUNYUAN_VIDEO_15)),
    },
    {
      probes: [
        "context_embedder_2.linear_3.weight",
        "context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight",
      ],
      view: withPatches,
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the defaults of diffusers, which the published models have. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const [dim, channels] = shapeOf(tensors, "x_embedder.proj.weight", 5) as [number, number];
  const [headDim] = shapeOf(tensors, "transformer_blocks.0.attn.norm_q.weight", 1) as [number];
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    out_channels: shape("proj_out")[0],
    num_attention_heads: dim / headDim,
    attention_head_dim: headDim,
    num_layers: countModules(tensors, "transformer_blocks."),
    num_refiner_layers: countModules(tensors, "context_embedder.token_refiner.refiner_blocks."),
    text_embed_dim: shape("context_embedder.proj_in")[1],
    text_embed_2_dim: shape("context_embedder_2.linear_1")[1],
    image_embed_dim: shape("image_embedder.linear_1")[1],
    use_meanflow: tensors.find("time_embed.timestep_embedder_r.linear_1.weight") !== undefined,
  };
}

/** Far fewer tokens than T5's vocabulary has. */
const MOST_BYTE_TOKENS = 4096;

/** The encoder of glyphs: T5's, for bytes. */
const BYT5_FORMAT: ComponentFormat = {
  ...T5_FORMAT,
  name: "a ByT5 text encoder",
  tokenizer: () => Promise.resolve(byteTokenizer({}, "ByT5's tokenizer")),
  fits: (tensors, file) =>
    T5_FORMAT.fits!(tensors, file) &&
    ["shared.weight", "encoder.embed_tokens.weight"].some((name) =>
      (tensors.find(name)?.shape[0] ?? Infinity) <= MOST_BYTE_TOKENS
    ),
};

/** Single files, which only their names tell apart. */
function defaults({ use_meanflow: takesFewSteps }: JsonObject, path: string): FamilyDefaults {
  const name = basename(path);
  const isLarge = /720p/i.test(name);
  const begins = /i2v/i.test(name) || takesFewSteps === true;
  const isDistilled = /distill/i.test(name) || takesFewSteps === true;
  const task = begins ? "i2v" : "t2v";
  const [own, other] = isLarge ? ["720p", "480p"] : ["480p", "720p"];
  return {
    className: begins ? IMAGE_CLASS : "HunyuanVideo15Pipeline",
    settings: { guider: isDistilled ? { guidance_scale: 1 } : USUAL_GUIDER },
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      // Source: the conversion script of diffusers.
      shift: takesFewSteps ? 7 : !isLarge ? 5 : begins ? 7 : 9,
    },
    needs: ["text_encoder_2", ...begins ? ["image_encoder" as const] : []],
    repositories: [own, other].map((size) =>
      `hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-${size}_${task}`
    ),
  };
}

export const HUNYUAN_VIDEO_15_FILES: FamilyFiles = {
  formats: [
    TRANSFORMER,
    QWEN2_5_VL_FORMAT,
    BYT5_FORMAT,
    SIGLIP_VISION_FORMAT,
    HUNYUAN_VIDEO_15_VAE_FORMAT,
  ],
  defaults,
};

export const HUNYUAN_VIDEO_15_LORA = {
  transformer: {
    family: "HunyuanVideo 1.5",
    layouts: [ORIGINAL_HUNYUAN_VIDEO_15, COMFY_HUNYUAN_VIDEO_15],
  },
  textEncoder: "Qwen2.5-VL",
  textEncoder2: "ByT5",
};
