/**
 * Tiny decoders, channels-last, of normalised latents. A video's blocks also see the frame before.
 * Source: diffusers `AutoencoderTiny` (TAESD) for images; madebyollin/taehv for videos.
 */
import {
  concat,
  copyTo,
  type DeviceTensor,
  elementwise,
  type Graph,
  linear,
  type Shape,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { convolutionLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import type { TinyDecoderConfig } from "./config.ts";

const BLOCKS = 3;

/** Makes a tensor that keeps the last frame of a block between latent frames; zeros before the first. */
export type DeclareMemory = (name: string, shape: Shape) => DeviceTensor;

/** Normalised latents, [1, height, width, latent_channels], as pixels, [1, height·8, width·8, 3], not clamped. */
export function tinyImageDecoder(
  graph: Graph,
  config: TinyDecoderConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const layers = weights.scope("decoder.layers");
  const widths = config.decoder_block_out_channels;
  let layer = 0;
  let x = convolutionLayer(layers, layer, clamped(latents), widths[0]!, { activation: "relu" });
  layer += 2;
  return graph.scope("decoder", () => {
    for (const width of widths.slice(0, -1)) {
      for (let i = 0; i < BLOCKS; i++) x = block(layers.scope(layer++), x, x);
      layer++;
      x = convolutionLayer(layers, layer++, x, width, { upsample: 2 });
    }
    x = block(layers.scope(layer++), x, x);
    return toSigned(convolutionLayer(layers, layer, x, 3));
  });
}

/** A latent frame, [1, height, width, latent_channels], as [frames, height·s, width·s, 3]; of the first only the last counts. */
export function tinyVideoFrames(
  graph: Graph,
  config: TinyDecoderConfig,
  weights: WeightScope,
  latent: Tensor,
  declare: DeclareMemory,
): Tensor {
  const layers = weights.scope("decoder");
  const widths = config.decoder_block_out_channels;
  // Layer 0 clamps.
  let layer = 1;
  let x = convolutionLayer(layers, layer, clamped(latent), widths[0]!, { activation: "relu" });
  layer += 2;
  return graph.scope("decoder", () => {
    config.time_upscale.forEach((factor, level) => {
      for (let i = 0; i < BLOCKS; i++) {
        const scope = layers.scope(layer++);
        const memory = declare(`memory ${scope.path}`, [1, ...x.shape.slice(1)]);
        x = block(scope, x, withFrameBefore(x, memory));
      }
      // The files enlarge, then grow in time; pixel by pixel, the other way round gives the same for less.
      layer++;
      x = grow(layers.scope(layer++), x, factor);
      x = convolutionLayer(layers, layer++, x, widths[level + 1]!, { upsample: 2 });
    });
    const channels = 3 * config.patch_size ** 2;
    const y = convolutionLayer(layers, layer + 1, elementwise("act_relu(x)", { x }), channels);
    return toSigned(pixelShuffle(y, config.patch_size));
  });
}

function block(weights: WeightScope, x: Tensor, input: Tensor): Tensor {
  const channels = x.dim(-1);
  const conv = weights.scope("conv");
  const h = convolutionLayer(conv, 0, input, channels, { activation: "relu" });
  const y = convolutionLayer(conv, 2, h, channels, { activation: "relu" });
  const sum = convolutionLayer(conv, 4, y, channels, { residual: x });
  return elementwise("act_relu(x)", { x: sum });
}

function withFrameBefore(x: Tensor, memory: DeviceTensor): Tensor {
  const frames = x.dim(0);
  const before = x.graph.use(memory);
  const past = frames === 1 ? before : concat([before, slice(x, 0, 0, frames - 1)], 0);
  const joined = concat([x, past], -1);
  copyTo(slice(x, 0, frames - 1, frames), memory);
  return joined;
}

function grow(weights: WeightScope, x: Tensor, factor: number): Tensor {
  const channels = x.dim(-1);
  const weight = weights.tensor(x.graph, "conv.weight", [channels * factor, channels, 1, 1]);
  const wide = linear(x, weight.reshape(channels * factor, channels), { name: "grow" });
  if (factor === 1) return wide;
  return rearrange(wide, "f y x (n c) -> (f n) y x c", { n: factor });
}

function clamped(x: Tensor): Tensor {
  return elementwise("act_tanh(x * 0.33333334) * 3.0", { x });
}

function toSigned(x: Tensor): Tensor {
  return elementwise("2.0 * x - 1.0", { x }, { name: "pixels" });
}

/** Channels, in the order (channel, row, column), as pixels. */
export function pixelShuffle(x: Tensor, side: number): Tensor {
  if (side === 1) return x;
  return rearrange(x, "f y x (c i j) -> f (y i) (x j) c", { i: side, j: side });
}
