/** FLUX.2 in single files. Source of the names: diffusers' `convert_flux2_transformer_checkpoint_to_diffusers`. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  doubleStreamSizes,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { MISTRAL_SMALL_FORMAT } from "../../text_encoders/ministral3.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3.ts";
import { type Layout, type LayoutEntry, renamed, scaleNorms } from "../../layouts.ts";
import { hiddenSize } from "../../config.ts";

/** The names of Black Forest Labs, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_FLUX2: Layout = {
  name: "original FLUX.2",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    renamed("img_in", "x_embedder"),
    renamed("txt_in", "context_embedder"),
    ...[["time_in", "timestep_embedder"], ["guidance_in", "guidance_embedder"]].flatMap((
      [theirs, ours],
    ) => [
      renamed(`${theirs}.in_layer`, `time_guidance_embed.${ours}.linear_1`),
      renamed(`${theirs}.out_layer`, `time_guidance_embed.${ours}.linear_2`),
    ]),
    ...["double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"]
      .map((name) => renamed(`${name}.lin`, `${name}.linear`)),
    ...stream("img", "to_qkv", ["to_q", "to_k", "to_v"], ["norm_q", "norm_k"], "to_out.0", "ff"),
    ...stream(
      "txt",
      "to_added_qkv",
      ["add_q_proj", "add_k_proj", "add_v_proj"],
      ["norm_added_q", "norm_added_k"],
      "to_add_out",
      "ff_context",
    ),
    renamed("single_blocks.*.linear1", "single_transformer_blocks.*.attn.to_qkv_mlp_proj"),
    renamed("single_blocks.*.linear2", "single_transformer_blocks.*.attn.to_out"),
    ...scaleNorms("single_blocks.*.norm", "single_transformer_blocks.*.attn", ["norm_q", "norm_k"]),
    // There the shift comes first.
    { theirs: "final_layer.adaLN_modulation.1", ours: ["norm_out.linear"], swapsHalves: true },
    renamed("final_layer.linear", "proj_out"),
  ],
};

function stream(
  theirs: string,
  joined: string,
  projections: readonly string[],
  normNames: readonly [query: string, key: string],
  output: string,
  feedForward: string,
): LayoutEntry[] {
  const [block, ours] = [`double_blocks.*.${theirs}`, "transformer_blocks.*"];
  return [
    // The second name is the one of diffusers with joined projections, for which it saves LoKr.
    ...[`${block}_attn.qkv`, `${ours}.attn.${joined}`].map((joinedName) => ({
      theirs: joinedName,
      ours: projections.map((name) => `${ours}.attn.${name}`),
    })),
    ...scaleNorms(`${block}_attn.norm`, `${ours}.attn`, normNames),
    renamed(`${block}_attn.proj`, `${ours}.attn.${output}`),
    renamed(`${block}_mlp.0`, `${ours}.${feedForward}.linear_in`),
    renamed(`${block}_mlp.2`, `${ours}.${feedForward}.linear_out`),
  ];
}

/** Heads of klein 9B; 4B has fewer. */
const HEADS_9B = 32;

const TRANSFORMER: ComponentFormat = {
  name: "a FLUX.2 transformer",
  component: "transformer",
  className: "Flux2Transformer2DModel",
  architecture: "flux",
  namings: [
    {
      probes: ["single_stream_modulation.lin.weight", "double_blocks.0.img_attn.qkv.weight"],
      layout: ORIGINAL_FLUX2,
    },
    {
      probes: ["single_stream_modulation.linear.weight", "transformer_blocks.0.attn.to_q.weight"],
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of FLUX.2-klein. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const time = "time_guidance_embed";
  const sizes = doubleStreamSizes(tensors);
  const dim = hiddenSize(sizes);
  return {
    _class_name: TRANSFORMER.className,
    ...sizes,
    timestep_guidance_channels: shapeOf(
      tensors,
      `${time}.timestep_embedder.linear_1.weight`,
      2,
    )[1]!,
    mlp_ratio: shapeOf(tensors, "transformer_blocks.0.ff.linear_out.weight", 2)[1]! / dim,
    axes_dims_rope: [32, 32, 32, 32],
    rope_theta: 2000,
    eps: 1e-6,
    guidance_embeds: tensors.find(`${time}.guidance_embedder.linear_1.weight`) !== undefined,
  };
}

/** Shapes do not tell whether a checkpoint is distilled; the names of files of those that are not say `base`. */
function defaults(transformer: JsonObject, path: string): FamilyDefaults {
  const isDev = transformer["guidance_embeds"] === true;
  const isBase = /base/i.test(basename(path));
  const size = Number(transformer["num_attention_heads"]) >= HEADS_9B ? "9B" : "4B";
  const repositories = [`klein-${size}`, `klein-base-${size}`];
  if (isBase) repositories.reverse();
  return {
    className: isDev ? "Flux2Pipeline" : "Flux2KleinPipeline",
    settings: { is_distilled: !isBase && !isDev },
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
      use_dynamic_shifting: true,
      base_shift: 0.5,
      max_shift: 1.15,
      base_image_seq_len: 256,
      max_image_seq_len: 4096,
      time_shift_type: "exponential",
    },
    repositories: (isDev ? ["dev"] : repositories).map((name) =>
      `black-forest-labs/FLUX.2-${name}`
    ),
  };
}

export const FLUX2_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_FORMAT, MISTRAL_SMALL_FORMAT, FLUX2_VAE_FORMAT],
  defaults,
};
