/** What `vocoder/config.json` of LTX-2 may say. */
import { z } from "zod";
import { refuse } from "../../config.ts";

const COUNTS = z.array(z.int().positive()).min(1);

const own = {
  in_channels: z.int().positive(),
  hidden_channels: z.int().positive(),
  out_channels: z.int().positive(),
  upsample_kernel_sizes: COUNTS,
  upsample_factors: COUNTS,
  resnet_kernel_sizes: COUNTS,
  resnet_dilations: z.array(COUNTS).min(1),
  act_fn: z.enum(["leaky_relu", "snake", "snakebeta"]),
  leaky_relu_negative_slope: z.number(),
  antialias: z.boolean(),
  antialias_ratio: z.int().min(2),
  antialias_kernel_size: z.int().min(2),
  final_act_fn: z.enum(["tanh", "clamp"]).nullable(),
  final_bias: z.boolean(),
};

/** One network from mel bands to sound; that of LTX-2.3 has a second one for the high frequencies. */
export type VocoderNet = z.output<z.ZodObject<typeof own>>;

const THREE_DILATIONS = [[1, 3, 5], [1, 3, 5], [1, 3, 5]];

function checkNet(net: VocoderNet, prefix: string, context: z.RefinementCtx): void {
  const check = (holds: boolean, key: keyof VocoderNet, message: string) => {
    if (!holds) refuse(context, `${prefix}${key}`, message);
  };
  const levels = net.upsample_factors.length;
  check(
    net.upsample_kernel_sizes.length === levels,
    "upsample_kernel_sizes",
    `it must have ${levels} entries, as upsample_factors has`,
  );
  check(
    net.resnet_dilations.length === net.resnet_kernel_sizes.length,
    "resnet_dilations",
    `it must have ${net.resnet_kernel_sizes.length} entries, as resnet_kernel_sizes has`,
  );
  check(
    net.resnet_kernel_sizes.every((size) => size % 2 === 1),
    "resnet_kernel_sizes",
    "even kernels are not supported",
  );
  const isExact = net.upsample_factors.every((factor, i) => {
    const size = net.upsample_kernel_sizes[i] ?? 0;
    return size >= factor && (size - factor) % 2 === 0;
  });
  check(isExact, "upsample_kernel_sizes", "kernels and factors must differ by an even number");
  check(
    net.hidden_channels % 2 ** levels === 0,
    "hidden_channels",
    `${levels} levels halve it`,
  );
  check(net.in_channels % 2 === 0, "in_channels", "stereo has two channels of mel bands");
  check(
    !(net.antialias && net.act_fn === "leaky_relu"),
    "antialias",
    "it is for snake activations",
  );
}

/** `vocoder/config.json` of `LTX2Vocoder`; defaults are those of the class. */
const LTX2_VOCODER_CONFIG = z.object({
  _class_name: z.literal("LTX2Vocoder").default("LTX2Vocoder"),
  in_channels: own.in_channels.default(128),
  hidden_channels: own.hidden_channels.default(1024),
  out_channels: own.out_channels.default(2),
  upsample_kernel_sizes: COUNTS.default([16, 15, 8, 4, 4]),
  upsample_factors: COUNTS.default([6, 5, 2, 2, 2]),
  resnet_kernel_sizes: COUNTS.default([3, 7, 11]),
  resnet_dilations: own.resnet_dilations.default(THREE_DILATIONS),
  act_fn: own.act_fn.default("leaky_relu"),
  leaky_relu_negative_slope: own.leaky_relu_negative_slope.default(0.1),
  antialias: own.antialias.default(false),
  antialias_ratio: own.antialias_ratio.default(2),
  antialias_kernel_size: own.antialias_kernel_size.default(12),
  final_act_fn: own.final_act_fn.default("tanh"),
  final_bias: own.final_bias.default(true),
  output_sampling_rate: z.int().positive().default(24_000),
}).superRefine((config, context) => checkNet(config, "", context));

/** `vocoder/config.json` of `LTX2VocoderWithBWE`; defaults are those of the class. */
const LTX2_EXTENDED_VOCODER_CONFIG = z.object({
  _class_name: z.literal("LTX2VocoderWithBWE"),
  in_channels: own.in_channels.default(128),
  hidden_channels: own.hidden_channels.default(1536),
  out_channels: own.out_channels.default(2),
  upsample_kernel_sizes: COUNTS.default([11, 4, 4, 4, 4, 4]),
  upsample_factors: COUNTS.default([5, 2, 2, 2, 2, 2]),
  resnet_kernel_sizes: COUNTS.default([3, 7, 11]),
  resnet_dilations: own.resnet_dilations.default(THREE_DILATIONS),
  act_fn: own.act_fn.default("snakebeta"),
  leaky_relu_negative_slope: own.leaky_relu_negative_slope.default(0.1),
  antialias: own.antialias.default(true),
  antialias_ratio: own.antialias_ratio.default(2),
  antialias_kernel_size: own.antialias_kernel_size.default(12),
  final_act_fn: own.final_act_fn.default(null),
  final_bias: own.final_bias.default(false),
  bwe_in_channels: own.in_channels.default(128),
  bwe_hidden_channels: own.hidden_channels.default(512),
  bwe_out_channels: own.out_channels.default(2),
  bwe_upsample_kernel_sizes: COUNTS.default([12, 11, 4, 4, 4]),
  bwe_upsample_factors: COUNTS.default([6, 5, 2, 2, 2]),
  bwe_resnet_kernel_sizes: COUNTS.default([3, 7, 11]),
  bwe_resnet_dilations: own.resnet_dilations.default(THREE_DILATIONS),
  bwe_act_fn: own.act_fn.default("snakebeta"),
  bwe_leaky_relu_negative_slope: own.leaky_relu_negative_slope.default(0.1),
  bwe_antialias: own.antialias.default(true),
  bwe_antialias_ratio: own.antialias_ratio.default(2),
  bwe_antialias_kernel_size: own.antialias_kernel_size.default(12),
  bwe_final_act_fn: own.final_act_fn.default(null),
  bwe_final_bias: own.final_bias.default(false),
  filter_length: z.int().positive().default(512),
  hop_length: z.int().positive().default(80),
  window_length: z.int().positive().default(512),
  num_mel_channels: z.int().positive().default(64),
  input_sampling_rate: z.int().positive().default(16_000),
  output_sampling_rate: z.int().positive().default(48_000),
}).superRefine((config, context) => {
  const nets = [config, extensionNet(config)] as const;
  checkNet(nets[0], "", context);
  checkNet(nets[1], "bwe_", context);
  const check = (holds: boolean, key: keyof typeof config, message: string) => {
    if (!holds) refuse(context, key, message);
  };
  const { hop_length: hop, filter_length: filter } = config;
  check(config.window_length === filter, "window_length", `filter_length is ${filter}`);
  check(hop <= filter, "hop_length", `filter_length is ${filter}`);
  const [first, second] = nets.map(({ upsample_factors }) => product(upsample_factors));
  check(first! % hop === 0, "hop_length", `a mel frame is ${first} samples, no multiple of it`);
  const ratio = config.output_sampling_rate / config.input_sampling_rate;
  check(
    Number.isInteger(ratio) && second === hop * ratio,
    "bwe_upsample_factors",
    `${hop} samples become ${second}, not ${ratio} times as many`,
  );
  check(
    config.bwe_in_channels === config.out_channels * config.num_mel_channels,
    "bwe_in_channels",
    `${config.out_channels} channels of ${config.num_mel_channels} mel bands go in`,
  );
  check(
    config.bwe_out_channels === config.out_channels,
    "bwe_out_channels",
    `out_channels is ${config.out_channels}`,
  );
});

export const LTX2_VOCODERS_CONFIG = z.union([LTX2_EXTENDED_VOCODER_CONFIG, LTX2_VOCODER_CONFIG]);

export type Ltx2ExtendedVocoderConfig = z.output<typeof LTX2_EXTENDED_VOCODER_CONFIG>;
export type Ltx2VocoderConfig = z.output<typeof LTX2_VOCODERS_CONFIG>;

export function product(factors: readonly number[]): number {
  return factors.reduce((all, factor) => all * factor, 1);
}

/** Mel frames of a second, from which a vocoder makes as many samples as it says. */
export function vocoderRate(config: Ltx2VocoderConfig): number {
  const isExtended = config._class_name === "LTX2VocoderWithBWE";
  const samples = isExtended ? config.input_sampling_rate : config.output_sampling_rate;
  return samples / product(config.upsample_factors);
}

/** The network of LTX-2.3 that adds the high frequencies. */
export function extensionNet(
  config: Readonly<Record<`bwe_${keyof VocoderNet}`, unknown>>,
): VocoderNet {
  const keys = Object.keys(own) as (keyof VocoderNet)[];
  return Object.fromEntries(keys.map((key) => [key, config[`bwe_${key}`]])) as VocoderNet;
}
