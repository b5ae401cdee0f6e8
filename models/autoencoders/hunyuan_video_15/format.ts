/** HunyuanVideo 1.5's autoencoder in single files. Source of the names: diffusers' `convert_hunyuan_video1_5_to_diffusers.py`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";

type Names = readonly (readonly [theirs: string, ours: string])[];

const BLOCK: Names = [
  ["norm1.gamma", "norm1.gamma"],
  ["conv1.conv", "conv1.conv"],
  ["norm2.gamma", "norm2.gamma"],
  ["conv2.conv", "conv2.conv"],
  ["nin_shortcut", "conv_shortcut"],
];

const ATTENTION: Names = [
  ["norm.gamma", "norm.gamma"],
  ["q", "to_q"],
  ["k", "to_k"],
  ["v", "to_v"],
  ["proj_out", "proj_out"],
];

function side(name: string, list: string, blocks: string, sampler: string): LayoutEntry[] {
  return [
    ...renamedIn(
      [["conv_in.conv", "conv_in.conv"], ["norm_out.gamma", "norm_out.gamma"], [
        "conv_out.conv",
        "conv_out.conv",
      ]],
      name,
      name,
    ),
    ...[1, 2].flatMap((i) =>
      renamedIn(BLOCK, `${name}.mid.block_${i}`, `${name}.mid_block.resnets.${i - 1}`)
    ),
    ...renamedIn(ATTENTION, `${name}.mid.attn_1`, `${name}.mid_block.attentions.0`),
    ...renamedIn(BLOCK, `${name}.${list}.*.block.*`, `${name}.${blocks}.*.resnets.*`),
    renamed(
      `${name}.${list}.*.${sampler}.conv.conv`,
      `${name}.${blocks}.*.${sampler}rs.0.conv.conv`,
    ),
  ];
}

/** The names of Tencent's own code, whose levels are in the order of diffusers on both sides. */
const ORIGINAL: Layout = {
  name: "original HunyuanVideo 1.5 autoencoder",
  prefixes: ["vae."],
  entries: [
    ...side("encoder", "down", "down_blocks", "downsample"),
    ...side("decoder", "up", "up_blocks", "upsample"),
  ],
};

export const HUNYUAN_VIDEO_15_VAE_FORMAT: ComponentFormat = {
  name: "an autoencoder of HunyuanVideo 1.5",
  component: "vae",
  className: "AutoencoderKLHunyuanVideo15",
  namings: [
    {
      probes: ["decoder.mid.block_1.norm1.gamma", "decoder.up.0.upsample.conv.conv.weight"],
      layout: ORIGINAL,
    },
    {
      probes: [
        "decoder.mid_block.resnets.0.norm1.gamma",
        "decoder.up_blocks.0.upsamplers.0.conv.conv.weight",
      ],
    },
  ],
  config,
};

/** Source of the scaling factor: the class of diffusers, whose default the published models have. */
function config(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `decoder.${name}.weight`, 5);
  const levels = countModules(tensors, "decoder.up_blocks.");
  const widths = Array.from(
    { length: levels },
    (_, i) => shape(`up_blocks.${i}.resnets.0.conv1.conv`)[0]!,
  );
  const samplers = widths.map((_, i) =>
    tensors.find(`decoder.up_blocks.${i}.upsamplers.0.conv.conv.weight`)?.shape[0]
  );
  // A level that doubles the frames gives twice the channels.
  const temporal = samplers.filter((rows, i) => rows === 8 * (widths[i + 1] ?? 0)).length;
  return {
    _class_name: HUNYUAN_VIDEO_15_VAE_FORMAT.className,
    latent_channels: shape("conv_in.conv")[1],
    block_out_channels: widths.toReversed(),
    layers_per_block: countModules(tensors, "decoder.up_blocks.0.resnets.") - 1,
    spatial_compression_ratio: 2 ** samplers.filter((rows) => rows !== undefined).length,
    temporal_compression_ratio: 2 ** temporal,
  };
}
