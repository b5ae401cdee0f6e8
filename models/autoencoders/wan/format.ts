/** Wan's autoencoders in single files. Source of the names: diffusers' `convert_wan_vae_to_diffusers`, the Wan team's code. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";
import { FLAT_VAE_CLASS } from "./config.ts";

const RESIDUAL: readonly (readonly [theirs: string, ours: string])[] = [
  ["residual.0.gamma", "norm1.gamma"],
  ["residual.2", "conv1"],
  ["residual.3.gamma", "norm2.gamma"],
  ["residual.6", "conv2"],
  ["shortcut", "conv_shortcut"],
];

const RESAMPLE = [["resample.1", "resample.1"], ["time_conv", "time_conv"]] as const;

const ATTENTION = ["norm.gamma", "to_qkv", "proj"].map((name) => [name, name] as const);

const COMMON: readonly LayoutEntry[] = [
  renamed("conv1", "quant_conv"),
  renamed("conv2", "post_quant_conv"),
  ...["encoder", "decoder"].flatMap((side) => [
    renamed(`${side}.conv1`, `${side}.conv_in`),
    renamed(`${side}.head.0.gamma`, `${side}.norm_out.gamma`),
    renamed(`${side}.head.2`, `${side}.conv_out`),
    ...renamedIn(RESIDUAL, `${side}.middle.0`, `${side}.mid_block.resnets.0`),
    ...renamedIn(ATTENTION, `${side}.middle.1`, `${side}.mid_block.attentions.0`),
    ...renamedIn(RESIDUAL, `${side}.middle.2`, `${side}.mid_block.resnets.1`),
  ]),
];

/** Wan 2.1: all levels of a side in one list, which diffusers keeps for the encoder alone. */
function flatLayout(tensors: TensorSource): Layout {
  const blocks = countModules(tensors, "decoder.upsamples.");
  // Of a level of the decoder: its residual blocks, then the upsampler.
  let perLevel = 1;
  while (
    perLevel < blocks && !tensors.find(`decoder.upsamples.${perLevel - 1}.resample.1.weight`)
  ) perLevel++;
  return {
    name: "original Wan 2.1 autoencoder",
    prefixes: [],
    entries: [
      ...COMMON,
      ...renamedIn(RESIDUAL, "encoder.downsamples.*", "encoder.down_blocks.*"),
      ...renamedIn(RESAMPLE, "encoder.downsamples.*", "encoder.down_blocks.*"),
      ...Array.from({ length: blocks }, (_, i) => {
        const level = `decoder.up_blocks.${Math.floor(i / perLevel)}`;
        const theirs = `decoder.upsamples.${i}`;
        return [
          ...renamedIn(RESIDUAL, theirs, `${level}.resnets.${i % perLevel}`),
          ...renamedIn(RESAMPLE, theirs, `${level}.upsamplers.0`),
        ];
      }).flat(),
    ],
  };
}

const NESTED_LAYOUT: Layout = {
  name: "original Wan 2.2 autoencoder",
  prefixes: [],
  entries: [
    ...COMMON,
    ...([["encoder", "down"], ["decoder", "up"]] as const).flatMap(([side, way]) => {
      const theirs = `${side}.${way}samples.*.${way}samples.*`;
      const level = `${side}.${way}_blocks.*`;
      return [
        ...renamedIn(RESIDUAL, theirs, `${level}.resnets.*`),
        ...renamedIn(RESAMPLE, theirs, `${level}.${way}sampler`),
      ];
    }),
  ],
};

/** Mean and standard deviation of each latent channel, by their number; the files do not hold them. */
const STATISTICS: Readonly<Record<number, { readonly mean: number[]; readonly std: number[] }>> = {
  // Source: the defaults of diffusers' AutoencoderKLWan.
  16: {
    // deno-fmt-ignore
    mean: [
      -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
      0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
    ],
    // deno-fmt-ignore
    std: [
      2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
      3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916,
    ],
  },
  // Source: Wan2_2_VAE of the Wan team's code.
  48: {
    // deno-fmt-ignore
    mean: [
      -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557,
      -0.1382, 0.0542, 0.2813, 0.0891, 0.157, -0.0098, 0.0375, -0.1825,
      -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
      -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.123,
      -0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.052, 0.3748,
      0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667,
    ],
    // deno-fmt-ignore
    std: [
      0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.499, 0.4818, 0.5013,
      0.8158, 1.0344, 0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978,
      0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
      0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093,
      0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
      0.3971, 1.06, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
    ],
  },
  // Source: the defaults of diffusers' AutoencoderKLQwenImage21.
  64: {
    // deno-fmt-ignore
    mean: [
      0.5126, 0.7721, -0.0631, 1.3506, -0.7855, -2.1025, -0.3458, 1.3722,
      1.8873, -1.7177, -0.651, 0.2732, 0.7562, -0.6163, -1.0277, 3.8363,
      2.021, 0.0472, 0.932, 2.0087, 2.4954, -0.1391, -1.4249, 1.8464,
      -0.5236, 1.2826, 3.7046, -1.3035, 2.7286, -1.4518, -1.9036, -1.9955,
      -0.0342, -1.0265, -0.7636, 3.0555, 0.0746, -3.0751, -0.1076, 1.7376,
      -1.0914, -1.9435, -0.2784, -1.368, 0.4809, -0.4433, 0.3764, 0.5729,
      -2.0595, 1.096, -1.326, -2.0211, -5.0179, 0.5275, 4.0162, 1.8505,
      0.3026, 1.9373, 1.4937, 0.2632, 0.5547, -1.7121, -0.1562, 0.0304,
    ],
    // deno-fmt-ignore
    std: [
      3.2001, 3.2936, 3.4321, 3.0091, 3.1061, 4.0379, 4.0705, 3.791,
      3.0785, 3.65, 3.9308, 3.0904, 2.8778, 3.7675, 3.732, 5.0756,
      3.2864, 4.0397, 3.1317, 4.0443, 2.9249, 3.9454, 3.0988, 4.2489,
      3.4896, 3.8513, 3.9323, 3.4719, 3.7498, 4.283, 3.5694, 4.2467,
      3.9037, 3.2947, 5.077, 3.5075, 3.27, 3.4767, 2.8063, 5.1125,
      3.5327, 4.7833, 3.1286, 4.1819, 3.8527, 3.8312, 3.5605, 4.3875,
      3.9624, 4.0168, 3.5643, 4.055, 5.5614, 4.2963, 4.408, 3.4959,
      3.8747, 3.7608, 3.5735, 3.149, 3.7662, 3.6746, 3.4563, 3.8161,
    ],
  },
};

export const WAN_VAE_FORMAT: ComponentFormat = {
  name: "a Wan autoencoder",
  component: "vae",
  className: "AutoencoderKLWan",
  namings: [
    {
      probes: ["decoder.middle.0.residual.0.gamma", "decoder.upsamples.0.residual.0.gamma"],
      layout: flatLayout,
    },
    {
      probes: [
        "decoder.middle.0.residual.0.gamma",
        "decoder.upsamples.0.upsamples.0.residual.0.gamma",
      ],
      layout: NESTED_LAYOUT,
    },
    { probes: ["decoder.mid_block.resnets.0.norm1.gamma", "post_quant_conv.weight"] },
  ],
  fits: (tensors) => !isFlat(tensors),
  config,
};

/** Qwen-Image-2.1's autoencoder, whose kernels have no time. */
export const QWEN_IMAGE_21_VAE_FORMAT: ComponentFormat = {
  ...WAN_VAE_FORMAT,
  name: "a Qwen-Image-2.1 autoencoder",
  className: FLAT_VAE_CLASS,
  fits: isFlat,
};

const SAMPLE = "decoder.conv_in.weight";

function isFlat(tensors: TensorSource): boolean {
  return tensors.find(SAMPLE)?.shape.length === 4;
}

function kernelOf(tensors: TensorSource, name: string): number[] {
  return shapeOf(tensors, name, isFlat(tensors) ? 4 : 5);
}

interface Level {
  channels: number;
  blocks: number;
  isTemporal: boolean;
}

function config(tensors: TensorSource): JsonObject {
  const isWhole = tensors.find("encoder.conv_in.weight") !== undefined;
  const finalDim = shapeOf(tensors, "decoder.norm_out.gamma", 1)[0]!;
  const outChannels = kernelOf(tensors, "decoder.conv_out.weight")[0]!;
  // Of a decoder alone, the encoder is taken to be like it.
  const [baseDim, inChannels] = isWhole
    ? kernelOf(tensors, "encoder.conv_in.weight") as [number, number]
    : [finalDim, outChannels];
  const zDim = kernelOf(tensors, SAMPLE)[1]!;
  const statistics = STATISTICS[zDim];
  if (!statistics) {
    throw new TypeError(
      `Cannot use "${tensors.path}": its latents have ${zDim} channels, whose statistics are known for ${
        Object.keys(STATISTICS).join(" and ")
      } only; use a folder with a config.json that has them`,
    );
  }
  const isResidual = tensors.find("decoder.up_blocks.0.upsampler.resample.1.weight") !== undefined;
  const levels = !isWhole
    ? decoderLevels(tensors)
    : isResidual
    ? nestedLevels(tensors)
    : flatLevels(tensors);
  const temporal = levels.slice(0, -1).map(({ isTemporal }) => isTemporal);
  // Qwen-Image-Layered's and Qwen-Image-2.1's have alpha.
  const patchSize = inChannels === 4 ? 1 : Math.sqrt(inChannels / 3);
  return {
    _class_name: isFlat(tensors) ? FLAT_VAE_CLASS : WAN_VAE_FORMAT.className,
    base_dim: baseDim,
    decoder_base_dim: finalDim * baseDim / levels[0]!.channels,
    z_dim: zDim,
    dim_mult: levels.map(({ channels }) => channels / baseDim),
    num_res_blocks: levels[0]!.blocks,
    temperal_downsample: temporal,
    latents_mean: statistics.mean,
    latents_std: statistics.std,
    is_residual: isResidual,
    in_channels: inChannels,
    out_channels: outChannels,
    patch_size: patchSize === 1 ? null : patchSize,
    scale_factor_spatial: patchSize * 2 ** (levels.length - 1),
    scale_factor_temporal: 2 ** temporal.filter(Boolean).length,
  };
}

function decoderLevels(tensors: TensorSource): Level[] {
  const count = countModules(tensors, "decoder.up_blocks.");
  return Array.from({ length: count }, (_, level) => {
    const block = (fromPixels: number) => `decoder.up_blocks.${count - 1 - fromPixels}`;
    const path = block(level);
    return {
      channels: kernelOf(tensors, `${path}.resnets.0.conv2.weight`)[0]!,
      blocks: countModules(tensors, `${path}.resnets.`) - 1,
      isTemporal: ["upsampler", "upsamplers.0"]
        .some((name) => tensors.find(`${block(level + 1)}.${name}.time_conv.weight`)),
    };
  });
}

function nestedLevels(tensors: TensorSource): Level[] {
  return Array.from({ length: countModules(tensors, "encoder.down_blocks.") }, (_, level) => {
    const path = `encoder.down_blocks.${level}`;
    return {
      channels: kernelOf(tensors, `${path}.resnets.0.conv2.weight`)[0]!,
      blocks: countModules(tensors, `${path}.resnets.`),
      isTemporal: tensors.find(`${path}.downsampler.time_conv.weight`) !== undefined,
    };
  });
}

function flatLevels(tensors: TensorSource): Level[] {
  const levels: Level[] = [];
  let level: Level = { channels: 0, blocks: 0, isTemporal: false };
  for (let i = 0; i < countModules(tensors, "encoder.down_blocks."); i++) {
    const path = `encoder.down_blocks.${i}`;
    if (level.blocks === 0) levels.push(level);
    if (tensors.find(`${path}.conv2.weight`)) {
      level.channels = kernelOf(tensors, `${path}.conv2.weight`)[0]!;
      level.blocks++;
    } else {
      level.isTemporal = tensors.find(`${path}.time_conv.weight`) !== undefined;
      level = { channels: 0, blocks: 0, isTemporal: false };
    }
  }
  return levels;
}
