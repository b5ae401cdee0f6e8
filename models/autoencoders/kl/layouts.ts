/**
 * Names that other programs have for the modules of the image autoencoders.
 *
 * Source: the conversion tables of diffusers (`convert_ldm_vae_checkpoint`) and its script for FLUX.2, read against the
 * module names of the published files.
 */
import type { Layout, LayoutEntry } from "../../layouts.ts";

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
 * The names of the first latent diffusion code, which BFL and ComfyUI keep. Decoder levels are counted from the
 * pixels, ours from the latents. The projections of the attention are stored there as convolutions of 1 x 1,
 * [out, in, 1, 1].
 *
 * @param levels entries of `block_out_channels`
 */
export function originalKlLayout(levels: number): Layout {
  const numbers = Array.from({ length: levels }, (_, i) => i);
  return {
    name: "original autoencoder",
    prefixes: ["first_stage_model.", "vae."],
    entries: [
      ...["encoder", "decoder"].flatMap((side) => [
        same(`${side}.conv_in`),
        entry(`${side}.norm_out`, `${side}.conv_norm_out`),
        same(`${side}.conv_out`),
        ...[1, 2].flatMap((i) =>
          within(BLOCK, `${side}.mid.block_${i}`, `${side}.mid_block.resnets.${i - 1}`)
        ),
        ...within(ATTENTION, `${side}.mid.attn_1`, `${side}.mid_block.attentions.0`),
      ]),
      ...within(BLOCK, "encoder.down.*.block.*", "encoder.down_blocks.*.resnets.*"),
      entry("encoder.down.*.downsample.conv", "encoder.down_blocks.*.downsamplers.0.conv"),
      ...numbers.flatMap((level) => {
        const [theirs, ours] = [`decoder.up.${level}`, `decoder.up_blocks.${levels - 1 - level}`];
        return [
          ...within(BLOCK, `${theirs}.block.*`, `${ours}.resnets.*`),
          entry(`${theirs}.upsample.conv`, `${ours}.upsamplers.0.conv`),
        ];
      }),
      same("quant_conv"),
      same("post_quant_conv"),
      // FLUX.2 has them inside of encoder and decoder.
      entry("encoder.quant_conv", "quant_conv"),
      entry("decoder.post_quant_conv", "post_quant_conv"),
      same("bn.running_mean"),
      same("bn.running_var"),
    ],
  };
}

function within(
  names: readonly (readonly [theirs: string, ours: string])[],
  theirs: string,
  ours: string,
): LayoutEntry[] {
  return names.map(([a, b]) => entry(`${theirs}.${a}`, `${ours}.${b}`));
}

function same(name: string): LayoutEntry {
  return entry(name, name);
}

function entry(theirs: string, ours: string): LayoutEntry {
  return { theirs, ours: [ours] };
}
