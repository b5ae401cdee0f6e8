/**
 * LTX-2's vocoders: mel bands to sound, rows of time [length, channels].
 * Source: diffusers `pipelines/ltx2/vocoder.py`.
 */
import {
  concat,
  conv2d,
  elementwise,
  type Graph,
  linear,
  permute,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { sharedConstant } from "../shared_constant.ts";
import { downsampleRows, hannFilter, upsampleRows } from "./time_filters.ts";
import {
  extensionNet,
  type Ltx2ExtendedVocoderConfig,
  type Ltx2VocoderConfig,
  type VocoderNet,
} from "./vocoder_config.ts";

/** Slope of the last leaky activation, whatever the configuration says of the others. */
const LAST_SLOPE = 0.01;

function zeros(graph: Graph, rows: number, columns: number): Tensor {
  const values = () => new Float32Array(rows * columns);
  return sharedConstant(graph, `zeros ${rows}x${columns}`, {
    shape: [rows, columns],
    dtype: "f32",
    values,
  });
}

/** Convolution along time that keeps the length, with zeros beyond the ends. */
function convolve(
  weights: WeightScope,
  name: string | number,
  x: Tensor,
  { outChannels, kernel, dilation = 1, residual }: {
    readonly outChannels: number;
    readonly kernel: number;
    readonly dilation?: number;
    readonly residual?: Tensor;
  },
): Tensor {
  const { graph } = x;
  const [length, channels] = x.shape as [number, number];
  const scope = weights.scope(name);
  const weight = scope.tensor(graph, "weight", [outChannels, channels, kernel], "channels-last");
  const bias = scope.has("bias") ? { bias: scope.tensor(graph, "bias", [outChannels]) } : {};
  const half = (kernel - 1) / 2;
  if (dilation === 1) {
    const image = (rows: Tensor) => rows.reshape(1, 1, length, rows.dim(-1));
    return conv2d(image(x), weight.reshape(outChannels, 1, kernel, channels), {
      ...bias,
      ...(residual && { residual: image(residual) }),
      padding: [0, 0, half, half],
      name: String(name),
    }).reshape(length, outChannels);
  }
  // Rows at a distance of `dilation` stand below each other.
  const lacking = (dilation - length % dilation) % dilation;
  const padded = lacking > 0 ? concat([x, zeros(graph, lacking, channels)], 0) : x;
  const y = conv2d(
    padded.reshape(1, -1, dilation, channels),
    weight.reshape(outChannels, kernel, 1, channels),
    { ...bias, padding: [half, half, 0, 0], name: String(name) },
  );
  return slice(y.reshape(length + lacking, outChannels), 0, 0, length);
}

/** Transposed convolution along time: `factor` times as many rows, each of several taps of the kernel. */
function widen(
  weights: WeightScope,
  x: Tensor,
  { outChannels, kernel, factor }: {
    readonly outChannels: number;
    readonly kernel: number;
    readonly factor: number;
  },
): Tensor {
  const { graph } = x;
  const [length, channels] = x.shape as [number, number];
  const weight = weights.tensor(graph, "weight", [channels, outChannels, kernel]);
  const taps = Math.ceil(kernel / factor);
  const lacking = taps * factor - kernel;
  const whole = weight.reshape(channels * outChannels, kernel);
  const padded = lacking > 0
    ? concat([whole, zeros(graph, channels * outChannels, lacking)], 1)
    : whole;
  // Tap j of the place p in a group of `factor` rows is the kernel's p + j·factor; the convolution meets the last first.
  const byTap = permute(padded.reshape(channels, outChannels, taps, factor), [2, 3, 1, 0]);
  const latest = Array.from(
    { length: taps },
    (_, i) => slice(byTap, 0, taps - 1 - i, taps - i).reshape(factor * outChannels, 1, 1, channels),
  );
  const y = conv2d(x.reshape(1, 1, length, channels), concat(latest, 2), {
    padding: [0, 0, taps - 1, taps - 1],
    name: "upsample",
  });
  const cut = (kernel - factor) / 2;
  const rows = slice(y.reshape(-1, outChannels), 0, cut, cut + length * factor);
  const bias = weights.tensor(graph, "bias", [outChannels]);
  return elementwise("x + bias", { x: rows, bias });
}

/** x + sin²(alpha·x) / beta; both factors are stored as logarithms. */
function snake(weights: WeightScope, x: Tensor, hasBeta: boolean): Tensor {
  const { graph } = x;
  const channels = x.dim(-1);
  const alpha = weights.tensor(graph, "alpha", [channels]);
  const beta = hasBeta ? weights.tensor(graph, "beta", [channels]) : alpha;
  const rate = elementwise("exp(alpha)", { alpha });
  const share = elementwise("1.0 / (exp(beta) + least)", { beta }, { scalars: { least: 1e-9 } });
  // Whole turns are taken off before: GPUs know the sine of small angles alone well.
  const angle = "(rate * x - turn * round(rate * x / turn))";
  return elementwise(`x + share * sin(${angle}) * sin(${angle})`, { x, rate, share }, {
    scalars: { turn: Math.PI },
    name: "snake",
  });
}

type Activations = Pick<
  VocoderNet,
  "act_fn" | "antialias" | "antialias_ratio" | "antialias_kernel_size" | "leaky_relu_negative_slope"
>;

function leaky(x: Tensor, slope: number): Tensor {
  return elementwise("max(x, slope * x)", { x }, { scalars: { slope }, name: "leaky_relu" });
}

/** A snake at `antialias_ratio` times the rate, so that what it bends makes no false tones. */
function antialiased(
  weights: WeightScope,
  x: Tensor,
  { antialias_ratio: ratio, antialias_kernel_size: size }: Activations,
  hasBeta: boolean,
): Tensor {
  const filter = (name: string) => weights.scope(name).tensor(x.graph, "filter", [1, 1, size]);
  const shift = Math.floor((size - ratio) / 2);
  const up = upsampleRows(x, filter("upsample"), ratio, shift);
  const bent = snake(weights.scope("act"), up, hasBeta);
  const before = Math.floor(size / 2) + size % 2 - 1;
  return downsampleRows(bent, filter("downsample"), ratio, before);
}

function activate(weights: WeightScope, x: Tensor, how: Activations): Tensor {
  if (how.act_fn === "leaky_relu") return leaky(x, how.leaky_relu_negative_slope);
  const hasBeta = how.act_fn === "snakebeta";
  return how.antialias ? antialiased(weights, x, how, hasBeta) : snake(weights, x, hasBeta);
}

function residualBlock(
  weights: WeightScope,
  x: Tensor,
  how: Activations & { readonly kernel: number; readonly dilations: readonly number[] },
): Tensor {
  const { kernel, dilations } = how;
  const outChannels = x.dim(-1);
  let h = x;
  for (const [i, dilation] of dilations.entries()) {
    const first = activate(weights.scope("acts1").scope(i), h, how);
    const y = convolve(weights.scope("convs1"), i, first, { outChannels, kernel, dilation });
    const second = activate(weights.scope("acts2").scope(i), y, how);
    h = convolve(weights.scope("convs2"), i, second, { outChannels, kernel, residual: h });
  }
  return h;
}

/** Mel bands of all channels, [frames, in_channels], to samples, [length, out_channels]. */
function network(weights: WeightScope, net: VocoderNet, mel: Tensor): Tensor {
  const { graph } = mel;
  let x = convolve(weights, "conv_in", mel, { outChannels: net.hidden_channels, kernel: 7 });
  for (const [i, factor] of net.upsample_factors.entries()) {
    x = graph.scope(`level.${i}`, () => {
      const own = net.act_fn === "leaky_relu" ? leaky(x, net.leaky_relu_negative_slope) : x;
      const wide = widen(weights.scope("upsamplers").scope(i), own, {
        outChannels: x.dim(-1) / 2,
        kernel: net.upsample_kernel_sizes[i]!,
        factor,
      });
      const kernels = net.resnet_kernel_sizes;
      const blocks = kernels.map((kernel, j) =>
        residualBlock(weights.scope("resnets").scope(i * kernels.length + j), wide, {
          ...net,
          kernel,
          dilations: net.resnet_dilations[j]!,
        })
      );
      return blocks.slice(1).reduce(
        (sum, block, j) =>
          elementwise(
            j === blocks.length - 2 ? "(a + b) * share" : "a + b",
            { a: sum, b: block },
            { scalars: j === blocks.length - 2 ? { share: 1 / blocks.length } : {} },
          ),
        blocks[0]!,
      );
    });
  }
  const last = net.act_fn === "leaky_relu"
    ? leaky(x, LAST_SLOPE)
    : antialiased(weights.scope("act_out"), x, net, true);
  const y = convolve(weights, "conv_out", last, { outChannels: net.out_channels, kernel: 7 });
  if (net.final_act_fn === "tanh") return elementwise("act_tanh(y)", { y });
  return net.final_act_fn === "clamp" ? clamped(y) : y;
}

function clamped(y: Tensor): Tensor {
  return elementwise("clamp(y, least, most)", { y }, { scalars: { least: -1, most: 1 } });
}

/** Logarithms of the mel bands of sound, [length, channels] to [frames, channels·bands]; no frame hears later samples. */
function melBands(weights: WeightScope, config: Ltx2ExtendedVocoderConfig, x: Tensor): Tensor {
  const { filter_length: size, hop_length: hop, num_mel_channels: bands } = config;
  const { graph } = x;
  const [length, channels] = x.shape as [number, number];
  const frequencies = Math.floor(size / 2) + 1;
  const rows = 2 * frequencies;
  const basis = weights.scope("stft_fn").tensor(graph, "forward_basis", [rows, 1, size]);
  // A window is some whole hops, zeros in front.
  const hops = Math.ceil(size / hop);
  const lacking = hops * hop - size;
  const own = basis.reshape(rows, size);
  const padded = lacking > 0 ? concat([zeros(graph, rows, lacking), own], 1) : own;
  const waves = conv2d(
    permute(x, [1, 0]).reshape(channels, 1, length / hop, hop),
    padded.reshape(rows, 1, hops, hop),
    { padding: [0, 0, hops - 1, 0], name: "stft" },
  );
  const [real, imaginary] = [slice(waves, -1, 0, frequencies), slice(waves, -1, frequencies)];
  const magnitude = elementwise("sqrt(a * a + b * b)", { a: real, b: imaginary });
  const mel = linear(magnitude, weights.tensor(graph, "mel_basis", [bands, frequencies]), {
    name: "mel",
  });
  const log = elementwise("log(max(mel, least))", { mel }, { scalars: { least: 1e-5 } });
  return permute(log.reshape(channels, length / hop, bands), [1, 0, 2])
    .reshape(length / hop, channels * bands);
}

/** Mel bands, [1, frames, bands, channels], to sound, [length, channels] in [-1, 1]. */
export function ltx2Vocoder(
  graph: Graph,
  config: Ltx2VocoderConfig,
  weights: WeightScope,
  mel: Tensor,
): Tensor {
  const [, frames, bands, channels] = mel.shape as [number, number, number, number];
  const rows = permute(mel.reshape(frames, bands, channels), [0, 2, 1])
    .reshape(frames, channels * bands);
  if (config._class_name === "LTX2Vocoder") {
    return graph.scope("vocoder", () => network(weights, config, rows));
  }
  const x = graph.scope("vocoder", () => network(weights.scope("vocoder"), config, rows));
  const high = graph.scope("extension", () => {
    const own = melBands(weights.scope("mel_stft"), config, x);
    return network(weights.scope("bwe_generator"), extensionNet(config), own);
  });
  const ratio = config.output_sampling_rate / config.input_sampling_rate;
  const { taps, shift } = hannFilter(ratio);
  const filter = graph.constant("resampling filter", [taps.length], "f32", taps);
  const low = upsampleRows(x, filter, ratio, shift);
  return clamped(elementwise("high + low", { high, low }));
}
