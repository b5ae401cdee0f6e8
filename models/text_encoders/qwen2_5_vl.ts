/** Qwen2.5-VL as text encoder; `qwen.ts` computes it. Source: transformers `Qwen2_5_VLForConditionalGeneration`. */
import { z } from "zod";
import { isObject } from "../../hub/json_file.ts";
import { headFits, refuse } from "../config.ts";
import { QWEN2_5_VISION_CONFIG } from "../image_encoders/qwen2_5_vision.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { Stated } from "../checkpoints/stated.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { languageConfig, LLAMA_CPP_QWEN } from "./qwen3.ts";

const ROPE = z.object({
  rope_theta: z.number().positive().optional(),
  type: z.enum(["default", "mrope"]).nullish(),
  rope_type: z.enum(["default", "mrope"]).nullish(),
  mrope_section: z.array(z.int().positive()).length(3).nullish(),
});

/** Pairs of a head that turn with time, row and column, of the published models. */
const MROPE_SECTION = [16, 24, 24];

/** The language model's part of the file. Defaults are those of the published 7B model. */
const LANGUAGE_CONFIG = z.object({
  vocab_size: z.int().positive().default(152064),
  hidden_size: z.int().positive().default(3584),
  intermediate_size: z.int().positive().default(18944),
  num_hidden_layers: z.int().positive().max(1024).default(28),
  num_attention_heads: z.int().positive().default(28),
  num_key_value_heads: z.int().positive().nullish().transform((value) => value ?? 4),
  hidden_act: z.literal("silu").default("silu"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  use_sliding_window: z.literal(false).nullish(),
  /** Where transformers before 5 wrote the base of the frequencies. */
  rope_theta: z.number().positive().nullish(),
  rope_parameters: ROPE.nullish(),
  rope_scaling: ROPE.nullish(),
}).superRefine((config, context) => {
  const { hidden_size: dim, num_attention_heads: heads, num_key_value_heads: kvHeads } = config;
  const headDim = dim / heads;
  if (!headFits(headDim)) {
    refuse(context, "num_attention_heads", "it must give heads of a multiple of 4, up to 128");
  }
  if (heads % kvHeads !== 0) {
    refuse(context, "num_key_value_heads", "it must divide num_attention_heads");
  }
  const pairs = mropeSection(config).reduce((sum, size) => sum + size, 0);
  if (pairs !== headDim / 2) {
    refuse(context, "rope_scaling", `its mrope_section must have ${headDim / 2} pairs together`);
  }
}).transform(({ rope_theta, rope_parameters, rope_scaling, ...config }) => ({
  ...config,
  model_type: "qwen2_5_vl" as const,
  head_dim: config.hidden_size / config.num_attention_heads,
  rope_theta: rope_parameters?.rope_theta ?? rope_theta ?? 1e6,
  mrope_section: mropeSection({ rope_parameters, rope_scaling }),
}));

type Rope = z.output<typeof ROPE> | null | undefined;

function mropeSection(
  { rope_parameters, rope_scaling }: {
    readonly rope_parameters?: Rope;
    readonly rope_scaling?: Rope;
  },
): number[] {
  return rope_parameters?.mrope_section ?? rope_scaling?.mrope_section ?? MROPE_SECTION;
}

/** `config.json`: the language model, flat or in `text_config`, and the vision tower where there is one. */
export const QWEN2_5_VL_CONFIG = z.preprocess(
  (json) => {
    if (!isObject(json)) return json;
    const { text_config: text, vision_config: vision } = json;
    return { text: isObject(text) ? text : json, vision: vision ?? null };
  },
  z.object({ text: LANGUAGE_CONFIG, vision: QWEN2_5_VISION_CONFIG.nullable() }),
).transform(({ text, vision }) => ({ ...text, vision }));

export type Qwen25VlConfig = z.output<typeof QWEN2_5_VL_CONFIG>;

/** Qwen2.5-VL of any size in single files: the language model, with the vision tower where the file has it. */
export const QWEN2_5_VL_FORMAT: ComponentFormat = {
  name: "a Qwen2.5-VL text encoder",
  component: "text_encoder",
  className: "Qwen2_5_VLForConditionalGeneration",
  architecture: "qwen2vl",
  namings: [
    {
      probes: [
        "model.language_model.layers.0.self_attn.q_proj.bias",
        "model.visual.blocks.0.attn.qkv.weight",
      ],
    },
    { probes: ["model.layers.0.self_attn.q_proj.bias", "visual.blocks.0.attn.qkv.weight"] },
    { probes: ["layers.0.self_attn.q_proj.bias", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q.bias", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  config,
};

const HEAD_DIM = 128;
const VISION_HEAD_DIM = 80;

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const has = (name: string) => tensors.find(name) !== undefined;
  const wrapper = ["model.language_model.", "model.", ""]
    .find((prefix) => has(`${prefix}embed_tokens.weight`))!;
  const tower = ["model.visual.", "visual."].find((name) => has(`${name}merger.ln_q.weight`));
  const stated = new Stated(tensors, metadata);
  stated.refuseScaledPositions();
  const heads = stated.number("attention.head_count");
  const queries = shapeOf(tensors, `${wrapper}layers.0.self_attn.q_proj.weight`, 2)[0]!;
  return {
    ...languageConfig(tensors, wrapper, heads ? queries / heads : HEAD_DIM, stated),
    vision_config: tower === undefined ? null : visionConfig(tensors, tower),
  };
}

function visionConfig(tensors: TensorSource, tower: string): JsonObject {
  const [dim, , , patchSize] = shapeOf(tensors, `${tower}patch_embed.proj.weight`, 5) as number[];
  return {
    depth: countLayers(tensors, `${tower}blocks.`),
    hidden_size: dim!,
    intermediate_size: shapeOf(tensors, `${tower}blocks.0.mlp.gate_proj.weight`, 2)[0]!,
    num_heads: Math.max(1, dim! / VISION_HEAD_DIM),
    patch_size: patchSize!,
    out_hidden_size: shapeOf(tensors, `${tower}merger.mlp.2.weight`, 2)[0]!,
  };
}

/** The axis whose positions turn each pair of a head: one axis after the other. */
export function qwen25Axes({ mrope_section }: Qwen25VlConfig): number[] {
  return mrope_section.flatMap((pairs, axis) => new Array<number>(pairs).fill(axis));
}
