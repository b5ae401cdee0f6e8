/** What the convolution kernels share: bindings, parameters, and the last step of every output. */
import { type Activation, activationWgsl } from "./activations.ts";
import type { BufferSlot, ParamType } from "./assemble.ts";

/** Structure that convolution kernels are specialised to; all sizes are parameters. */
export interface ConvFeatures {
  /** Input channels per access; 4 needs a number of input channels that divides by 4. */
  readonly width: 1 | 4;
  /** Output channels per access; 4 needs a number of output channels that divides by 4. */
  readonly outWidth: 1 | 4;
  /** Whether the frames before the first are in a tensor of their own. */
  readonly hasCache: boolean;
  readonly hasBias: boolean;
  readonly hasResidual: boolean;
  readonly activation: Activation;
}

/** The features, for the name of a kernel. */
export function convName(features: ConvFeatures): string {
  const { width, outWidth, hasCache, hasBias, hasResidual, activation } = features;
  const parts = [
    width === 1 && "odd ci",
    outWidth === 1 && "odd co",
    hasCache && "cache",
    hasBias && "bias",
    activation !== "none" && activation,
    hasResidual && "residual",
  ];
  return parts.filter((part) => part !== false).map((part) => ` ${part}`).join("");
}

/** Bindings: x, cache, weight, bias, residual, y, as far as they are there. */
export function convBuffers(features: ConvFeatures): BufferSlot[] {
  const { width, outWidth, hasCache, hasBias, hasResidual } = features;
  const read = (name: string, own: 1 | 4): BufferSlot => ({ name, access: "read", width: own });
  return [
    read("x", width),
    ...(hasCache ? [read("cache", width)] : []),
    read("weight", width),
    ...(hasBias ? [read("bias", outWidth)] : []),
    ...(hasResidual ? [read("residual", outWidth)] : []),
    { name: "y", access: "read_write", width: outWidth },
  ];
}

/**
 * Parameters. `words`: input channels / width; `channels`: output channels; `front`: frames of zeros before
 * the cache; `up_shift`: 1 where the input is seen at twice its size, else 0; `seen_height` and `seen_width`: the
 * input's size as seen.
 */
export const CONV_PARAMS: Readonly<Record<string, ParamType>> = {
  words: "u32",
  channels: "u32",
  x_frames: "u32",
  cache_frames: "u32",
  x_height: "u32",
  x_width: "u32",
  y_frames: "u32",
  y_height: "u32",
  y_width: "u32",
  k_frames: "u32",
  k_height: "u32",
  k_width: "u32",
  stride_t: "u32",
  stride_h: "u32",
  stride_w: "u32",
  front: "u32",
  pad_top: "i32",
  pad_left: "i32",
  up_shift: "u32",
  seen_height: "i32",
  seen_width: "i32",
};

/** Declares `b0`, `b1`, …: the biases of the channels, or zeros; lines of WGSL. */
export function convBiasWgsl(features: ConvFeatures, channels: readonly string[]): string {
  if (!features.hasBias) return channels.map((_, j) => `  let b${j} = 0.0;`).join("\n");
  if (features.outWidth === 1) {
    return channels.map((channel, j) =>
      `  let b${j} = bias_at(min(${channel}, params.channels - 1u));`
    ).join("\n");
  }
  return channels.map((channel, j) =>
    j % 4 === 0
      ? `  let bias${j} = bias_at(min(${channel}, params.channels - 4u) / 4u);
  let b${j} = bias${j}.x;`
      : `  let b${j} = bias${j - j % 4}.${"xyzw"[j % 4]};`
  ).join("\n");
}

/**
 * `fn finish(pixel: u32, channel: u32, sum: T)`: y = act(sum) + residual for one channel, or for four from
 * `channel` on; `pixel` counts over batch, frames and pixels.
 */
export function convFinishWgsl(features: ConvFeatures): string {
  const { outWidth, hasResidual, activation } = features;
  const type = outWidth === 4 ? "vec4<f32>" : "f32";
  const at = "pixel * params.channels + channel";
  const active = activation === "none" ? "sum" : `act_${activation}(sum)`;
  return `${activation === "none" ? "" : activationWgsl(activation, type)}
fn finish(pixel: u32, channel: u32, sum: ${type}) {
  let at = ${outWidth === 4 ? `(${at}) / 4u` : at};
  y_put(at, ${active}${hasResidual ? " + residual_at(at)" : ""});
}`;
}

/** Stores the sums of neighbouring channels of one pixel, as far as they exist; lines of WGSL. */
export function convStoreWgsl(
  features: ConvFeatures,
  pixel: string,
  channels: readonly string[],
  sums: readonly string[],
): string[] {
  if (features.outWidth === 1) {
    return sums.map((sum, j) =>
      `    if (${channels[j]} < params.channels) { finish(${pixel}, ${channels[j]}, ${sum}); }`
    );
  }
  const lines: string[] = [];
  for (let j = 0; j < sums.length; j += 4) {
    const four = sums.slice(j, j + 4).join(", ");
    lines.push(
      `    if (${channels[j]} < params.channels) { finish(${pixel}, ${
        channels[j]
      }, vec4<f32>(${four})); }`,
    );
  }
  return lines;
}
