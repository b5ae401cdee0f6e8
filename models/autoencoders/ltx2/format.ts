/**
 * LTX-2's autoencoders and vocoders in the files of its makers, each under a prefix of its own.
 * Source of the names: diffusers' `convert_ltx2_vae_to_diffusers` and `convert_ltx2_audio_vae_to_diffusers`, and
 * stable-diffusion.cpp's `ltx_vae.hpp` and `ltx_audio_vae.hpp`.
 */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";
import { AUDIO_SCALE } from "./audio_config.ts";
import { STRIDES } from "./video_config.ts";

const STATISTICS: readonly LayoutEntry[] = [
  renamed("per_channel_statistics.mean-of-means", "latents_mean"),
  renamed("per_channel_statistics.std-of-means", "latents_std"),
];

const BLOCK = ["conv1.conv", "conv2.conv", "norm3", "conv_shortcut"]
  .map((name) => [name, name] as const);

/** A block of the makers' code, and what it is in ours. */
interface Place {
  readonly theirs: string;
  readonly ours: string;
  readonly isScale: boolean;
}

/** All blocks of a side in one list: the makers' code numbers ways up and down among the rest. */
function placesOf(tensors: TensorSource, side: "encoder" | "decoder"): Place[] {
  const way = side === "encoder" ? "down" : "up";
  const count = countModules(tensors, `${side}.${way}_blocks.`);
  const names = Array.from({ length: count }, (_, i) => `${side}.${way}_blocks.${i}`);
  const isScale = (name: string) => tensors.find(`${name}.conv.conv.weight`) !== undefined;
  const middle = side === "encoder" ? names.at(-1) : names[0];
  let level = side === "encoder" ? 0 : -1;
  return names.map((theirs) => {
    if (theirs === middle) return { theirs, ours: `${side}.mid_block`, isScale: false };
    const scales = isScale(theirs);
    // Blocks come before the way down and after the way up.
    if (side === "decoder" && scales) level++;
    const block = `${side}.${way}_blocks.${level}`;
    if (side === "encoder" && scales) level++;
    return { theirs, ours: scales ? `${block}.${way}samplers.0` : block, isScale: scales };
  });
}

const SIDES = ["encoder", "decoder"] as const;

function videoLayout(tensors: TensorSource): Layout {
  return {
    name: "original LTX-2 autoencoder",
    prefixes: [],
    entries: [
      ...STATISTICS,
      ...SIDES.flatMap((side) => [
        ...["conv_in.conv", "conv_out.conv"].map((name) =>
          renamed(`${side}.${name}`, `${side}.${name}`)
        ),
        ...placesOf(tensors, side).flatMap(({ theirs, ours, isScale }) =>
          isScale
            ? [renamed(`${theirs}.conv.conv`, `${ours}.conv.conv`)]
            : renamedIn(BLOCK, `${theirs}.res_blocks.*`, `${ours}.resnets.*`)
        ),
      ]),
    ],
  };
}

type WayName = keyof typeof STRIDES;

/** The way of scaling that makes so many places of one. */
function wayOf(tensors: TensorSource, name: string, cells: number): WayName {
  const ways = Object.entries(STRIDES) as [WayName, readonly number[]][];
  const way = ways.find(([, stride]) => stride.reduce((all, one) => all * one, 1) === cells);
  if (way) return way[0];
  throw new TypeError(
    `Cannot use "${tensors.path}": "${name}" scales by ${cells}, and 2, 4 and 8 are known; use a folder with a config.json`,
  );
}

function videoConfig(tensors: TensorSource): JsonObject {
  const kernel = (name: string) => shapeOf(tensors, `${name}.conv.weight`, 5);
  const latents = kernel("decoder.conv_in")[1]!;
  const patch = Math.sqrt(kernel("decoder.conv_out")[0]! / 3);
  const blocks = (name: string) => countModules(tensors, `${name}.resnets.`);
  /** Channels of the blocks from a level on, or of the middle. */
  const widthAt = (side: string, way: string, levels: number, from: number): number | undefined => {
    for (let level = from; level < levels; level++) {
      const block = `${side}.${way}_blocks.${level}.resnets.0.conv1`;
      if (tensors.find(`${block}.conv.weight`)) return kernel(block)[1]!;
    }
    return undefined;
  };
  const up = countModules(tensors, "decoder.up_blocks.");
  const first = kernel("decoder.conv_in")[0]!;
  let wide = first;
  const ways = Array.from({ length: up }, (_, level) => {
    const block = `decoder.up_blocks.${level}`;
    const channels = widthAt("decoder", "up", level + 1, level) ?? wide;
    const scale = `${block}.upsamplers.0.conv`;
    const way = wayOf(tensors, scale, kernel(scale)[0]! / channels);
    const own = { blocks: blocks(block), channels, way, factor: wide / channels };
    wide = channels;
    return own;
  });
  // The makers' first model alone has shortcuts, and mirrors the edges of frames.
  const isFirst = up === 3 &&
    ways.every(({ way, factor }) => way === "spatiotemporal" && factor === 2);
  const down = countModules(tensors, "encoder.down_blocks.");
  const decoder = {
    latent_channels: latents,
    patch_size: patch,
    decoder_block_out_channels: ways.map(({ channels, factor }) => channels * factor).reverse(),
    decoder_layers_per_block: [
      ...ways.map(({ blocks }) => blocks).reverse(),
      blocks("decoder.mid_block"),
    ],
    decoder_spatio_temporal_scaling: true,
    upsample_type: ways.map(({ way }) => way),
    upsample_residual: isFirst,
    upsample_factor: ways.map(({ factor }) => factor).reverse(),
    decoder_causal: false,
    decoder_spatial_padding_mode: isFirst ? "reflect" : "zeros",
  };
  // Of a decoder alone, the encoder is taken to be the class's.
  if (down === 0) return decoder;
  const middle = kernel("encoder.mid_block.resnets.0.conv1")[1]!;
  const levels = Array.from({ length: down }, (_, level) => {
    const block = `encoder.down_blocks.${level}`;
    const channels = widthAt("encoder", "down", down, level + 1) ?? middle;
    const scale = `${block}.downsamplers.0.conv`;
    return {
      blocks: blocks(block),
      channels,
      way: wayOf(tensors, scale, channels / kernel(scale)[0]!),
    };
  });
  return {
    ...decoder,
    block_out_channels: levels.map(({ channels }) => channels),
    layers_per_block: [...levels.map(({ blocks }) => blocks), blocks("encoder.mid_block")],
    spatio_temporal_scaling: true,
    downsample_type: levels.map(({ way }) => way),
  };
}

/** `vae.*` of the makers' files, or a file of its own. */
export const LTX2_VIDEO_VAE_FORMAT: ComponentFormat = {
  name: "an LTX-2 autoencoder",
  component: "vae",
  className: "AutoencoderKLLTX2Video",
  namings: [
    {
      probes: [
        "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",
        "per_channel_statistics.std-of-means",
        "decoder.up_blocks.1.conv.conv.weight",
      ],
      layout: videoLayout,
    },
    { probes: ["decoder.mid_block.resnets.0.conv1.conv.weight", "latents_std"] },
  ],
  // Those of the older LTX-Video know the time at which they decode.
  fits: (tensors) => tensors.find("decoder.timestep_scale_multiplier") === undefined,
  config: videoConfig,
};

const AUDIO_LAYOUT: Layout = {
  name: "original LTX-2 audio autoencoder",
  prefixes: [],
  entries: STATISTICS,
};

function audioConfig(tensors: TensorSource): JsonObject {
  const kernel = (name: string) => shapeOf(tensors, `${name}.conv.weight`, 4);
  const [, latents] = kernel("decoder.conv_in") as [number, number];
  const [outChannels] = kernel("decoder.conv_out") as [number];
  const features = shapeOf(tensors, "latents_std", 1)[0]!;
  const levels = countModules(tensors, "decoder.up.");
  const widths = Array.from(
    { length: levels },
    (_, level) => kernel(`decoder.up.${level}.block.0.conv1`)[0]!,
  );
  const hasEncoder = tensors.find("encoder.conv_in.conv.weight") !== undefined;
  return {
    base_channels: widths[0]!,
    output_channels: outChannels,
    in_channels: hasEncoder ? kernel("encoder.conv_in")[1]! : outChannels,
    ch_mult: widths.map((width) => width / widths[0]!),
    num_res_blocks: countModules(tensors, "decoder.up.0.block.") - 1,
    latent_channels: latents,
    mel_bins: features / latents * AUDIO_SCALE,
  };
}

/** `audio_vae.*` of the makers' files. */
export const LTX2_AUDIO_VAE_FORMAT: Omit<ComponentFormat, "component"> = {
  name: "an LTX-2 audio autoencoder",
  className: "AutoencoderKLLTX2Audio",
  namings: [
    {
      probes: [
        "decoder.up.0.block.0.conv1.conv.weight",
        "per_channel_statistics.std-of-means",
      ],
      layout: AUDIO_LAYOUT,
    },
    { probes: ["decoder.up.0.block.0.conv1.conv.weight", "latents_std"] },
  ],
  config: audioConfig,
};

const ACTIVATION = [
  ["act.alpha", "act.alpha"],
  ["act.beta", "act.beta"],
  ["upsample.filter", "upsample.filter"],
  ["downsample.lowpass.filter", "downsample.filter"],
] as const;

/** The names of one network of a vocoder, below `prefix`. */
function networkEntries(prefix: string): LayoutEntry[] {
  return [
    renamed(`${prefix}conv_pre`, `${prefix}conv_in`),
    renamed(`${prefix}ups.*`, `${prefix}upsamplers.*`),
    ...[1, 2].flatMap((i) => [
      renamed(`${prefix}resblocks.*.convs${i}.*`, `${prefix}resnets.*.convs${i}.*`),
      ...renamedIn(ACTIVATION, `${prefix}resblocks.*.acts${i}.*`, `${prefix}resnets.*.acts${i}.*`),
    ]),
    ...renamedIn(ACTIVATION, `${prefix}act_post`, `${prefix}act_out`),
    renamed(`${prefix}conv_post`, `${prefix}conv_out`),
  ];
}

const VOCODER_LAYOUT: Layout = {
  name: "original LTX-2 vocoder",
  prefixes: [],
  entries: ["", "vocoder.", "bwe_generator."].flatMap(networkEntries),
};

/** How many times longer each kernel of the published vocoders makes sound: shapes do not tell. */
const FACTORS: Readonly<Record<number, number>> = { 16: 6, 15: 5, 12: 6, 11: 5, 8: 2, 4: 2 };

const LAST = "conv_out.weight";

function networkConfig(tensors: TensorSource, prefix: string, isLast: boolean): JsonObject {
  const shape = (name: string) => shapeOf(tensors, prefix + name, 3);
  const levels = countModules(tensors, `${prefix}upsamplers.`);
  const sizes = Array.from({ length: levels }, (_, i) => shape(`upsamplers.${i}.weight`)[2]!);
  const factors = sizes.map((size) => {
    const factor = FACTORS[size];
    if (factor !== undefined) return factor;
    throw new TypeError(
      `Cannot use "${tensors.path}": how far kernels of ${size} lengthen sound is not known; use a folder with a config.json`,
    );
  });
  const kernels = countModules(tensors, `${prefix}resnets.`) / levels;
  const numbers = Array.from({ length: kernels }, (_, i) => i);
  const act = `${prefix}resnets.0.acts1.0`;
  const isSnake = tensors.find(`${act}.act.alpha`) !== undefined;
  return {
    in_channels: shape("conv_in.weight")[1]!,
    hidden_channels: shape("conv_in.weight")[0]!,
    out_channels: shape(LAST)[0]!,
    upsample_kernel_sizes: sizes,
    upsample_factors: factors,
    resnet_kernel_sizes: numbers.map((i) => shape(`resnets.${i}.convs1.0.weight`)[2]!),
    resnet_dilations: numbers.map((i) =>
      [1, 3, 5].slice(0, countModules(tensors, `${prefix}resnets.${i}.convs1.`))
    ),
    act_fn: !isSnake ? "leaky_relu" : tensors.find(`${act}.act.beta`) ? "snakebeta" : "snake",
    antialias: tensors.find(`${act}.upsample.filter`) !== undefined,
    final_act_fn: !isSnake ? "tanh" : isLast ? null : "clamp",
    final_bias: tensors.find(`${prefix}conv_out.bias`) !== undefined,
  };
}

function vocoderConfig(tensors: TensorSource): JsonObject {
  if (!tensors.find(`vocoder.${LAST}`)) {
    return { _class_name: "LTX2Vocoder", ...networkConfig(tensors, "", false) };
  }
  if (!tensors.find(`bwe_generator.${LAST}`)) {
    throw new SyntaxError(
      `Cannot read "${tensors.path}": the vocoder's second network is missing; fetch the file again`,
    );
  }
  const second = networkConfig(tensors, "bwe_generator.", true);
  const window = shapeOf(tensors, "mel_stft.stft_fn.forward_basis", 3)[2]!;
  return {
    _class_name: "LTX2VocoderWithBWE",
    ...networkConfig(tensors, "vocoder.", false),
    ...Object.fromEntries(Object.entries(second).map(([key, value]) => [`bwe_${key}`, value])),
    filter_length: window,
    window_length: window,
    num_mel_channels: shapeOf(tensors, "mel_stft.mel_basis", 2)[0]!,
  };
}

/** `vocoder.*` of the makers' files: one network, or two below further names. */
export const LTX2_VOCODER_FORMAT: Omit<ComponentFormat, "component"> = {
  name: "an LTX-2 vocoder",
  className: "LTX2Vocoder",
  namings: [
    {
      probes: ["vocoder.conv_pre.weight", "bwe_generator.conv_pre.weight"],
      layout: VOCODER_LAYOUT,
    },
    { probes: ["conv_pre.weight", "ups.0.weight", "conv_post.weight"], layout: VOCODER_LAYOUT },
    { probes: ["vocoder.conv_in.weight", "bwe_generator.conv_in.weight"] },
    { probes: ["conv_in.weight", "upsamplers.0.weight", "resnets.0.convs1.0.weight"] },
  ],
  config: vocoderConfig,
};
