/** Names and configurations of UNets, and of what is built as their way down. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";

/** Residual blocks of a level on the way down; one more on the way up. */
const LAYERS = 2;
/** Most levels of a UNet. */
const LEVELS = 4;

const RESIDUAL: readonly (readonly [theirs: string, ours: string])[] = [
  ["in_layers.0", "norm1"],
  ["in_layers.2", "conv1"],
  ["emb_layers.1", "time_emb_proj"],
  ["out_layers.0", "norm2"],
  ["out_layers.3", "conv2"],
  ["skip_connection", "conv_shortcut"],
];

const BLOCK = "transformer_blocks.*";
const ATTENTION: readonly (readonly [theirs: string, ours: string])[] = [
  "norm",
  "proj_in",
  "proj_out",
  ...[1, 2, 3].map((i) => `${BLOCK}.norm${i}`),
  ...["attn1", "attn2"].flatMap((name) =>
    ["to_q", "to_k", "to_v", "to_out.0"].map((part) => `${BLOCK}.${name}.${part}`)
  ),
  `${BLOCK}.ff.net.0.proj`,
  `${BLOCK}.ff.net.2`,
].map((name) => [name, name]);

function layer(theirs: string, ours: string, i: number): LayoutEntry[] {
  return [
    ...renamedIn(RESIDUAL, `${theirs}.0`, `${ours}.resnets.${i}`),
    ...renamedIn(ATTENTION, `${theirs}.1`, `${ours}.attentions.${i}`),
  ];
}

/** The way down of a UNet, and of a ControlNet. */
export const LDM_DOWN: readonly LayoutEntry[] = [
  ...[1, 2].flatMap((i) => [
    renamed(`time_embed.${2 * i - 2}`, `time_embedding.linear_${i}`),
    renamed(`label_emb.0.${2 * i - 2}`, `add_embedding.linear_${i}`),
  ]),
  renamed("encoder_hid_proj", "encoder_hid_proj"),
  renamed("input_blocks.0.0", "conv_in"),
  ...renamedIn(RESIDUAL, "middle_block.0", "mid_block.resnets.0"),
  ...renamedIn(ATTENTION, "middle_block.1", "mid_block.attentions.0"),
  ...renamedIn(RESIDUAL, "middle_block.2", "mid_block.resnets.1"),
  ...Array.from({ length: LEVELS }, (_, level) => {
    const down = `down_blocks.${level}`;
    const first = 1 + (LAYERS + 1) * level;
    return [
      ...[0, 1].flatMap((i) => layer(`input_blocks.${first + i}`, down, i)),
      renamed(`input_blocks.${first + LAYERS}.0.op`, `${down}.downsamplers.0.conv`),
    ];
  }).flat(),
];

/** Source: `convert_ldm_unet_checkpoint` of diffusers, read against the published files. */
export const LDM_UNET: Layout = {
  name: "original Stable Diffusion",
  prefixes: ["model.diffusion_model.", "diffusion_model."],
  entries: [
    ...LDM_DOWN,
    renamed("out.0", "conv_norm_out"),
    renamed("out.2", "conv_out"),
    ...Array.from({ length: LEVELS }, (_, level) => {
      const up = `up_blocks.${level}`;
      const last = (LAYERS + 1) * (level + 1) - 1;
      return [
        ...[0, 1, 2].flatMap((i) => layer(`output_blocks.${last - LAYERS + i}`, up, i)),
        // It stands behind the attention, where there is any.
        ...[2, 1].map((i) => renamed(`output_blocks.${last}.${i}.conv`, `${up}.upsamplers.0.conv`)),
      ];
    }).flat(),
  ],
};

export const UNET: ComponentFormat = {
  name: "a UNet of Stable Diffusion",
  component: "transformer",
  className: "UNet2DConditionModel",
  architecture: (tensors) => tensors.find("add_embedding.linear_1.weight") ? "sdxl" : "sd1",
  namings: [
    {
      probes: ["input_blocks.0.0.weight", "output_blocks.2.0.in_layers.2.weight"],
      layout: LDM_UNET,
    },
    {
      probes: [
        "down_blocks.0.resnets.0.time_emb_proj.weight",
        "up_blocks.0.resnets.0.conv1.weight",
      ],
    },
  ],
  config: unetConfig,
};

/** Width of every head, where the UNet is not of SD 1, which has eight heads. */
const HEAD_DIM = 64;
export const SD1_TEXT = 768;
const SD1_HEADS = 8;
/** Width of the text where no block attends to it. */
const SDXL_TEXT = 2048;
const TIME_ID_WIDTH = 256;

function downLevels(tensors: TensorSource): number[] {
  return Array.from({ length: countModules(tensors, "down_blocks.") }, (_, i) => i);
}

function depthsOf(tensors: TensorSource, block: string, count: number): number[] {
  return Array.from(
    { length: count },
    (_, i) => countModules(tensors, `${block}.attentions.${i}.transformer_blocks.`),
  );
}

function attends(depths: readonly number[]): boolean {
  return depths[0]! > 0;
}

/**
 * What UNets and ControlNets have in common, and the depths of every level's layers, of which the last level has those of
 * the middle where it does not attend itself.
 * Source of what shapes do not tell: unet/config.json of SD 1.5, SD 2.1 and SDXL.
 */
export function downConfig(tensors: TensorSource): { config: JsonObject; depths: number[][] } {
  const has = (name: string) => tensors.find(name) !== undefined;
  const levels = downLevels(tensors);
  const layers = countModules(tensors, "down_blocks.0.resnets.");
  const channels = levels.map((i) =>
    shapeOf(tensors, `down_blocks.${i}.resnets.0.conv1.weight`, 4)[0]!
  );
  const down = levels.map((i) => depthsOf(tensors, `down_blocks.${i}`, layers));
  const mid = countModules(tensors, "mid_block.attentions.0.transformer_blocks.");
  const keys = [...tensors.names].find((name) => name.endsWith("attn2.to_k.weight"));
  const added = "add_embedding.linear_1.weight";
  const projection = "encoder_hid_proj.weight";
  const textDim = keys !== undefined
    ? shapeOf(tensors, keys, 2)[1]!
    : has(added)
    ? SDXL_TEXT
    : SD1_TEXT;
  const config = {
    in_channels: shapeOf(tensors, "conv_in.weight", 4)[1]!,
    block_out_channels: channels,
    layers_per_block: layers,
    down_block_types: down.map((depths) =>
      attends(depths) ? "CrossAttnDownBlock2D" : "DownBlock2D"
    ),
    mid_block_type: mid > 0
      ? "UNetMidBlock2DCrossAttn"
      : has("mid_block.resnets.0.conv1.weight")
      ? "UNetMidBlock2D"
      : null,
    cross_attention_dim: textDim,
    ...(has(projection) && {
      encoder_hid_dim_type: "text_proj",
      encoder_hid_dim: shapeOf(tensors, projection, 2)[1]!,
    }),
    attention_head_dim: textDim === SD1_TEXT
      ? SD1_HEADS
      : channels.map((width) => Math.max(1, width / HEAD_DIM)),
    use_linear_projection: textDim !== SD1_TEXT,
    ...(has(added) && {
      addition_embed_type: "text_time",
      addition_time_embed_dim: TIME_ID_WIDTH,
      projection_class_embeddings_input_dim: shapeOf(tensors, added, 2)[1]!,
    }),
  };
  const depths = down.map((depths, i) => {
    if (i === levels.length - 1 && !attends(depths)) return [mid || 1];
    return attends(depths) ? depths : [1];
  });
  return { config, depths };
}

function isUneven(levels: readonly (readonly number[])[]): boolean {
  return levels.some((depths) => depths.some((each) => each !== depths[0]));
}

function unetConfig(tensors: TensorSource): JsonObject {
  const { config, depths } = downConfig(tensors);
  const layers = countModules(tensors, "down_blocks.0.resnets.");
  const up = downLevels(tensors).map((i) => depthsOf(tensors, `up_blocks.${i}`, layers + 1));
  const back = up.map((depths) => (attends(depths) ? depths : [1]));
  const isListed = isUneven([...depths, ...back]);
  return {
    _class_name: UNET.className,
    ...config,
    out_channels: shapeOf(tensors, "conv_out.weight", 4)[0]!,
    sample_size: config["addition_embed_type"] ? 128 : 64,
    up_block_types: up.map((depths) => attends(depths) ? "CrossAttnUpBlock2D" : "UpBlock2D"),
    transformer_layers_per_block: isListed ? depths : depths.map(([first]) => first!),
    ...(isListed && { reverse_transformer_layers_per_block: back }),
    ...(tensors.find("time_embedding.cond_proj.weight") && {
      time_cond_proj_dim: shapeOf(tensors, "time_embedding.cond_proj.weight", 2)[1]!,
    }),
  };
}
