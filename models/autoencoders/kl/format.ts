/** The image autoencoders in single files. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import {
  type ComponentFormat,
  type ComponentNaming,
  countModules,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed, renamedIn } from "../../layouts.ts";

const BLOCK: readonly (readonly [theirs: string, ours: string])[] = [
  ["norm1", "norm1"],
  ["conv1", "conv1"],
  ["norm2", "norm2"],
  ["conv2", "conv2"],
  ["nin_shortcut", "conv_shortcut"],
];

const ATTENTION: readonly (readonly [theirs: string, ours: string])[] = [
  ["norm", "group_norm"],
  ["q", "to_q"],
  ["k", "to_k"],
  ["v", "to_v"],
  ["proj_out", "to_out.0"],
];

/**
 * The names of the first latent diffusion code: decoder levels from the pixels, attention as convolutions of 1 x 1.
 * Source: `convert_ldm_vae_checkpoint` of diffusers and its script for FLUX.2, read against the published files.
 */
export function originalKlLayout(levels: number): Layout {
  const numbers = Array.from({ length: levels }, (_, i) => i);
  return {
    name: "original autoencoder",
    prefixes: ["first_stage_model.", "vae."],
    entries: [
      ...["encoder", "decoder"].flatMap((side) => [
        renamed(`${side}.conv_in`, `${side}.conv_in`),
        renamed(`${side}.norm_out`, `${side}.conv_norm_out`),
        renamed(`${side}.conv_out`, `${side}.conv_out`),
        ...[1, 2].flatMap((i) =>
          renamedIn(BLOCK, `${side}.mid.block_${i}`, `${side}.mid_block.resnets.${i - 1}`)
        ),
        ...renamedIn(ATTENTION, `${side}.mid.attn_1`, `${side}.mid_block.attentions.0`),
      ]),
      ...renamedIn(BLOCK, "encoder.down.*.block.*", "encoder.down_blocks.*.resnets.*"),
      renamed("encoder.down.*.downsample.conv", "encoder.down_blocks.*.downsamplers.0.conv"),
      ...numbers.flatMap((level) => {
        const [theirs, ours] = [`decoder.up.${level}`, `decoder.up_blocks.${levels - 1 - level}`];
        return [
          ...renamedIn(BLOCK, `${theirs}.block.*`, `${ours}.resnets.*`),
          renamed(`${theirs}.upsample.conv`, `${ours}.upsamplers.0.conv`),
        ];
      }),
      renamed("quant_conv", "quant_conv"),
      renamed("post_quant_conv", "post_quant_conv"),
      // FLUX.2 has them inside of encoder and decoder.
      renamed("encoder.quant_conv", "quant_conv"),
      renamed("decoder.post_quant_conv", "post_quant_conv"),
      renamed("bn.running_mean", "bn.running_mean"),
      renamed("bn.running_var", "bn.running_var"),
    ],
  };
}

/** Latent channels of the autoencoders of Stable Diffusion, of FLUX.1 and Z-Image, and of FLUX.2. */
const [SD_CHANNELS, FLUX1_CHANNELS, FLUX2_CHANNELS] = [4, 16, 32];

const NAMINGS: readonly ComponentNaming[] = [
  {
    probes: ["decoder.mid.block_1.norm1.weight", "decoder.conv_in.weight"],
    layout: (tensors) => originalKlLayout(countModules(tensors, "decoder.up.")),
  },
  { probes: ["decoder.mid_block.resnets.0.norm1.weight", "decoder.conv_in.weight"] },
];

/** Shapes do not tell that of SD 1 and 2 from that of SDXL, which scales its latents otherwise. */
export const SD_VAE_FORMAT: ComponentFormat = {
  name: "an autoencoder of Stable Diffusion",
  component: "vae",
  className: "AutoencoderKL",
  namings: NAMINGS,
  fits: (tensors) => latentChannels(tensors) === SD_CHANNELS,
  config: (tensors) => ({ ...bodyOf(tensors), _class_name: SD_VAE_FORMAT.className }),
};

/** The autoencoder of FLUX.1 and Z-Image in single files; one with other channels needs a format of its own. */
export const FLUX1_VAE_FORMAT: ComponentFormat = {
  name: "an autoencoder of FLUX.1 and Z-Image",
  component: "vae",
  className: "AutoencoderKL",
  namings: NAMINGS,
  fits: (tensors) => latentChannels(tensors) === FLUX1_CHANNELS,
  config: (tensors) => ({
    ...bodyOf(tensors),
    _class_name: FLUX1_VAE_FORMAT.className,
    // Source: vae/config.json of FLUX.1 and of Z-Image.
    scaling_factor: 0.3611,
    shift_factor: 0.1159,
  }),
};

export const FLUX2_VAE_FORMAT: ComponentFormat = {
  name: "an autoencoder of FLUX.2",
  component: "vae",
  className: "AutoencoderKLFlux2",
  namings: NAMINGS,
  fits: (tensors) => latentChannels(tensors) === FLUX2_CHANNELS,
  config: (tensors) => ({
    ...bodyOf(tensors),
    _class_name: FLUX2_VAE_FORMAT.className,
    decoder_block_out_channels: channelsOf(tensors, "decoder.up_blocks").toReversed(),
    batch_norm_eps: 1e-4,
  }),
};

function latentChannels(tensors: TensorSource): number {
  return shapeOf(tensors, "decoder.conv_in.weight", 4)[1]!;
}

/** What both have. Of a decoder alone, the encoder is taken to be like it. */
function bodyOf(tensors: TensorSource): JsonObject {
  const isWhole = tensors.find("encoder.conv_in.weight") !== undefined;
  const channels = isWhole
    ? channelsOf(tensors, "encoder.down_blocks")
    : channelsOf(tensors, "decoder.up_blocks").toReversed();
  return {
    block_out_channels: channels,
    down_block_types: channels.map(() => "DownEncoderBlock2D"),
    up_block_types: channels.map(() => "UpDecoderBlock2D"),
    layers_per_block: countModules(tensors, "decoder.up_blocks.0.resnets.") - 1,
    latent_channels: latentChannels(tensors),
    use_quant_conv: tensors.find("quant_conv.weight") !== undefined,
    use_post_quant_conv: tensors.find("post_quant_conv.weight") !== undefined,
    mid_block_add_attention:
      tensors.find("decoder.mid_block.attentions.0.group_norm.weight") !== undefined,
  };
}

function channelsOf(tensors: TensorSource, levels: string): number[] {
  return Array.from(
    { length: countModules(tensors, `${levels}.`) },
    (_, level) => shapeOf(tensors, `${levels}.${level}.resnets.0.conv1.weight`, 4)[0]!,
  );
}
