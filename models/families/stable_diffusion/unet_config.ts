/** What `unet/config.json` may say, and the blocks that follow from it. Defaults are those of `UNet2DConditionModel`. */
import { z } from "zod";
import { refuse } from "../../config.ts";

const COUNT = z.int().positive().max(1024);
const DOWN_TYPES = ["DownBlock2D", "CrossAttnDownBlock2D"] as const;
const UP_TYPES = ["UpBlock2D", "CrossAttnUpBlock2D"] as const;
const MID_TYPES = ["UNetMidBlock2DCrossAttn", "UNetMidBlock2D"] as const;
/** Transformer blocks of a level: a number, or one for each of its layers. */
const DEPTH = z.union([COUNT, z.array(COUNT).min(1)]);

/** Keys that only UNets of other models set, and what they would be. */
const REFUSED = {
  dual_cross_attention: "two texts beside each other",
  num_class_embeds: "classes",
  class_embed_type: "classes",
  cross_attention_norm: "norms of the text",
  time_embedding_dim: "embeddings of the timestep of another width",
  time_embedding_act_fn: "activations of the timestep's embedding",
  timestep_post_act: "activations of the timestep's embedding",
  class_embeddings_concat: "classes",
  center_input_sample: "centred samples",
  resnet_skip_time_act: "timesteps without activation",
};

function absent(words: string) {
  const message = `UNets with ${words} are not supported`;
  return z.union([z.null(), z.literal(false)], message).default(null);
}

export const UNET_FIELDS = z.object({
  _class_name: z.literal("UNet2DConditionModel").default("UNet2DConditionModel"),
  ...Object.fromEntries(Object.entries(REFUSED).map(([key, words]) => [key, absent(words)])),
  in_channels: COUNT.default(4),
  out_channels: COUNT.default(4),
  sample_size: COUNT.nullish(),
  flip_sin_to_cos: z.literal(true).default(true),
  freq_shift: z.literal(0).default(0),
  down_block_types: z.array(z.enum(DOWN_TYPES)).min(1).default([
    ...new Array(3).fill(DOWN_TYPES[1]),
    DOWN_TYPES[0],
  ]),
  mid_block_type: z.enum(MID_TYPES).nullable().default("UNetMidBlock2DCrossAttn"),
  up_block_types: z.array(z.enum(UP_TYPES)).min(1).default([
    UP_TYPES[0],
    ...new Array(3).fill(UP_TYPES[1]),
  ]),
  only_cross_attention: z.literal(false).default(false),
  mid_block_only_cross_attention: z.literal(false).nullish(),
  block_out_channels: z.array(z.int().positive()).min(1).default([320, 640, 1280, 1280]),
  layers_per_block: z.union([COUNT, z.array(COUNT)]).default(2),
  downsample_padding: z.literal(1).default(1),
  mid_block_scale_factor: z.literal(1).default(1),
  act_fn: z.enum(["silu", "swish"]).default("silu"),
  norm_num_groups: z.int().positive().default(32),
  norm_eps: z.number().positive().default(1e-5),
  cross_attention_dim: z.int("one width of the text for all blocks is supported").positive()
    .default(1280),
  transformer_layers_per_block: z.union([COUNT, z.array(DEPTH)]).default(1),
  reverse_transformer_layers_per_block: z.array(DEPTH).nullish(),
  /** Really the number of heads; the name is an old mistake of the reference. */
  attention_head_dim: z.union([COUNT, z.array(COUNT)]).default(8),
  num_attention_heads: z.null("heads belong into attention_head_dim, as in the reference")
    .nullish(),
  use_linear_projection: z.boolean().default(false),
  /** Whether the text is brought to `cross_attention_dim` by the UNet itself, as in Kolors. */
  encoder_hid_dim_type: z.literal(
    "text_proj",
    "UNets with images beside the text are not supported",
  )
    .nullable().default(null),
  encoder_hid_dim: z.int().positive().nullish(),
  addition_embed_type: z.literal(
    "text_time",
    "UNets with another additional embedding than that of SDXL are not supported",
  ).nullable().default(null),
  addition_time_embed_dim: COUNT.multipleOf(2).nullish(),
  projection_class_embeddings_input_dim: z.int().positive().nullish(),
  // Logits are f32 in any case.
  upcast_attention: z.boolean().nullish(),
  resnet_time_scale_shift: z.literal("default").default("default"),
  resnet_out_scale_factor: z.literal(1).default(1),
  time_embedding_type: z.literal("positional").default("positional"),
  time_cond_proj_dim: COUNT.multipleOf(2).nullish(),
  conv_in_kernel: z.literal(3).default(3),
  conv_out_kernel: z.literal(3).default(3),
  attention_type: z.literal("default").default("default"),
});

export const UNET_CONFIG = UNET_FIELDS.superRefine(checkUnet);

/** Of a UNet, or of a ControlNet, whose way up has no blocks. */
export type UnetConfig = Omit<z.output<typeof UNET_FIELDS>, "_class_name">;

export function checkUnet(config: UnetConfig, context: z.RefinementCtx): void {
  const levels = config.block_out_channels.length;
  const lists = [
    "down_block_types",
    "up_block_types",
    "layers_per_block",
    "transformer_layers_per_block",
    "reverse_transformer_layers_per_block",
    "attention_head_dim",
  ] as const;
  for (const key of lists) {
    const value = config[key];
    // ControlNets have no way up.
    const isNone = key === "up_block_types" && config.up_block_types.length === 0;
    if (!Array.isArray(value) || value.length === levels || isNone) continue;
    refuse(context, key, `it must have ${levels} entries, as block_out_channels has`);
  }
  const { norm_num_groups: groups, block_out_channels: widths } = config;
  if (widths.some((width) => width % groups !== 0 || width % 4 !== 0)) {
    const message = `every entry must be a multiple of 4 and of norm_num_groups = ${groups}`;
    refuse(context, "block_out_channels", message);
  }
  widths.forEach((width, level) => {
    const heads = at(config.attention_head_dim, level) ?? 1;
    if (width % (4 * heads) === 0 && width / heads <= MAX_HEAD_DIM) return;
    const message = `${width} channels must give heads of a multiple of 4 up to ${MAX_HEAD_DIM}`;
    refuse(context, "attention_head_dim", message);
  });
  const isNested = [config.transformer_layers_per_block].flat().some(Array.isArray);
  if (isNested && !config.reverse_transformer_layers_per_block) {
    const message = "reverse_transformer_layers_per_block is needed beside lists of lists";
    refuse(context, "transformer_layers_per_block", message);
  }
  if (config.addition_embed_type && !config.addition_time_embed_dim) {
    refuse(context, "addition_time_embed_dim", "it is needed beside addition_embed_type");
  }
  if (config.addition_embed_type && !config.projection_class_embeddings_input_dim) {
    const key = "projection_class_embeddings_input_dim";
    refuse(context, key, "it is needed beside addition_embed_type");
  }
}

/** Widest head of the fused attention. */
const MAX_HEAD_DIM = 160;

export interface UnetBlock {
  /** Its place in the tree of weights. */
  readonly name: string;
  readonly channels: number;
  readonly heads: number;
  /** Of every residual block, the transformer blocks behind it; 0 where there is no attention. */
  readonly depths: readonly number[];
}

export interface UnetBlocks {
  readonly down: readonly UnetBlock[];
  readonly mid: UnetBlock | undefined;
  readonly up: readonly UnetBlock[];
}

function at<T>(value: T | readonly T[], level: number): T {
  return Array.isArray(value) ? value[level] : value as T;
}

/** The blocks in the order of the forward pass. */
export function unetBlocks(config: UnetConfig): UnetBlocks {
  const { block_out_channels: widths, mid_block_type: midType } = config;
  const { transformer_layers_per_block: depths, attention_head_dim: heads } = config;
  const last = widths.length - 1;
  const reversed = config.reverse_transformer_layers_per_block;
  const block = (
    name: string,
    level: number,
    layers: number,
    depth: number | readonly number[],
    attends: boolean,
  ) => ({
    name,
    channels: widths[level]!,
    heads: at(heads, level),
    depths: Array.from({ length: layers }, (_, i) => (attends ? at(depth, i) ?? 0 : 0)),
  });
  const midDepth = at<number | readonly number[]>(at(depths, last), 0) as number;
  const layersOf = (level: number) => at(config.layers_per_block, level);
  return {
    down: widths.map((_, level) => {
      const attends = config.down_block_types[level] === "CrossAttnDownBlock2D";
      return block(`down_blocks.${level}`, level, layersOf(level), at(depths, level), attends);
    }),
    mid: midType === null ? undefined : {
      name: "mid_block",
      channels: widths[last]!,
      heads: at(heads, last),
      depths: midType === "UNetMidBlock2D" ? [0] : [midDepth, 0],
    },
    up: config.up_block_types.map((type, i) => {
      const level = last - i;
      const attends = type === "CrossAttnUpBlock2D";
      const depth = reversed ? reversed[i]! : at(depths, level);
      return block(`up_blocks.${i}`, level, layersOf(level) + 1, depth, attends);
    }),
  };
}

interface UnetModule {
  /** Its place in the tree of weights. */
  readonly name: string;
  readonly channels: number;
  readonly heads: number;
}

/** All residual blocks, in the order of the forward pass. */
export function residualModules(config: UnetConfig): UnetModule[] {
  return allBlocks(config).flatMap(({ name, depths, ...sizes }) =>
    depths.map((_, i) => ({ name: `${name}.resnets.${i}`, ...sizes }))
  );
}

/** All transformer blocks, in the order of the forward pass. */
export function transformerModules(config: UnetConfig): UnetModule[] {
  return allBlocks(config).flatMap(({ name, depths, ...sizes }) =>
    depths.flatMap((depth, layer) =>
      Array.from(
        { length: depth },
        (_, i) => ({ name: `${name}.attentions.${layer}.transformer_blocks.${i}`, ...sizes }),
      )
    )
  );
}

function allBlocks(config: UnetConfig): UnetBlock[] {
  const { down, mid, up } = unetBlocks(config);
  return [...down, ...(mid ? [mid] : []), ...up];
}
