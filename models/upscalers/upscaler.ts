/**
 * Upscalers of the Real-ESRGAN kind, channels-last, images in [0, 1].
 * Source: xinntao/Real-ESRGAN `SRVGGNetCompact`; XPixelGroup/BasicSR `RRDBNet`.
 */
import { z } from "zod";
import {
  concat,
  type Conv2dOptions,
  elementwise,
  type Graph,
  type Tensor,
  type TensorSource,
  type WeightScope,
} from "../../runtime/mod.ts";
import { pixelShuffle } from "../autoencoders/tiny/decoder.ts";
import { convolutionLayer } from "../blocks/layers.ts";
import { rearrange } from "../rearrange.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";

export const UPSCALER_CONFIG = z.object({
  _class_name: z.enum(["SRVGGNetCompact", "RRDBNet"]),
  num_feat: z.int().positive(),
  /** Convolutions between the first and the last, or blocks of blocks. */
  num_block: z.int().positive(),
  /** Channels that each convolution of a block adds; `RRDBNet` only. */
  num_grow_ch: z.int().positive().default(32),
  /** Result pixels along a side, for one of the image. */
  scale: z.int().min(1).max(4),
});

export type UpscalerConfig = z.output<typeof UPSCALER_CONFIG>;

const ADDED = 0.2;

/** Pixels along a side that the network sees as one: sides of an image are multiples of it. */
export function inputUnit({ _class_name, scale }: UpscalerConfig): number {
  return _class_name === "RRDBNet" ? 4 / scale : 1;
}

/** Enlarges an image, whose sides are multiples of {@linkcode inputUnit}, to values to be clamped to [0, 1]. */
export function upscale(
  graph: Graph,
  config: UpscalerConfig,
  weights: WeightScope,
  image: Tensor,
): Tensor {
  return graph.scope(
    "upscaler",
    () =>
      config._class_name === "RRDBNet"
        ? denseBlocks(config, weights, image)
        : compact(config, weights, image),
  );
}

/** Convolutions at the size of the image; the last gives the pixels of the result, added to those of the image. */
function compact(
  { num_feat, num_block, scale }: UpscalerConfig,
  weights: WeightScope,
  image: Tensor,
): Tensor {
  const { graph } = image;
  const body = weights.scope("body");
  let x = image;
  for (let i = 0; i <= num_block; i++) {
    x = convolutionLayer(body, 2 * i, x, num_feat);
    const slope = body.tensor(graph, `${2 * i + 1}.weight`, [num_feat]);
    x = elementwise("max(x, zero) + slope * min(x, zero)", { x, slope }, {
      scalars: { zero: 0 },
      name: "prelu",
    });
  }
  const pixels = pixelShuffle(
    convolutionLayer(body, 2 * num_block + 2, x, 3 * scale * scale),
    scale,
  );
  const [, height, width] = image.shape as [number, number, number, number];
  return elementwise("a + b", {
    a: pixels.reshape(height, scale, width, scale, 3),
    b: image.reshape(height, 1, width, 1, 3),
  }).reshape(...pixels.shape);
}

function denseBlocks(
  config: UpscalerConfig,
  weights: WeightScope,
  image: Tensor,
): Tensor {
  const { num_feat, num_block, num_grow_ch } = config;
  const conv = (name: string, x: Tensor, options: Omit<Conv2dOptions, "bias"> = {}) =>
    convolutionLayer(weights, name, x, num_feat, options);
  const first = conv("conv_first", pixelUnshuffle(image, inputUnit(config)));
  let x = first;
  for (let i = 0; i < num_block; i++) {
    const block = weights.scope("body").scope(i);
    let h = x;
    for (const name of ["rdb1", "rdb2", "rdb3"]) h = denseBlock(block.scope(name), h, num_grow_ch);
    x = add(h, x);
  }
  let y = conv("conv_body", x, { residual: first });
  for (const name of ["conv_up1", "conv_up2"]) {
    y = conv(name, y, { upsample: 2, activation: "leaky_relu" });
  }
  y = conv("conv_hr", y, { activation: "leaky_relu" });
  return convolutionLayer(weights, "conv_last", y, 3);
}

function denseBlock(weights: WeightScope, x: Tensor, growth: number): Tensor {
  const seen = [x];
  for (let i = 1; i < 5; i++) {
    const all = concat(seen, -1);
    seen.push(convolutionLayer(weights, `conv${i}`, all, growth, { activation: "leaky_relu" }));
  }
  return add(convolutionLayer(weights, "conv5", concat(seen, -1), x.dim(-1)), x);
}

function add(h: Tensor, x: Tensor): Tensor {
  return elementwise("share * h + x", { h, x }, { scalars: { share: ADDED } });
}

function pixelUnshuffle(x: Tensor, side: number): Tensor {
  if (side === 1) return x;
  return rearrange(x, "f (y i) (x j) c -> f y x (c i j)", { i: side, j: side });
}

/** The compact kind, as BasicSR saves it with or without `params` or `params_ema` before the names: realesr-animevideov3, realesr-general-x4v3. */
export const COMPACT_UPSCALER_FORMAT: ComponentFormat = {
  name: "a compact Real-ESRGAN upscaler",
  component: "upscaler",
  className: "SRVGGNetCompact",
  namings: [{ probes: ["body.0.weight", "body.1.weight", "body.2.weight"] }],
  fits: (tensors) => tensors.find("body.1.weight")!.shape.length === 1,
  config: (tensors) => {
    // Convolutions and activations take turns; the last convolution has none after it.
    const last = countModules(tensors, "body.") - 1;
    return {
      _class_name: "SRVGGNetCompact",
      num_feat: firstOf(tensors, "body.0.weight"),
      num_block: last / 2 - 1,
      scale: Math.sqrt(firstOf(tensors, `body.${last}.weight`) / 3),
    };
  },
};

/** The large kind: RealESRGAN_x4plus, RealESRGAN_x2plus and others. */
export const RRDB_UPSCALER_FORMAT: ComponentFormat = {
  name: "a Real-ESRGAN upscaler",
  component: "upscaler",
  className: "RRDBNet",
  namings: [{ probes: ["conv_first.weight", "body.0.rdb1.conv1.weight", "conv_up2.weight"] }],
  config: (tensors) => ({
    _class_name: "RRDBNet",
    num_feat: firstOf(tensors, "conv_first.weight"),
    num_block: countModules(tensors, "body."),
    num_grow_ch: firstOf(tensors, "body.0.rdb1.conv1.weight"),
    scale: 4 / Math.sqrt(shapeOf(tensors, "conv_first.weight", 4)[1]! / 3),
  }),
};

function firstOf(tensors: TensorSource, name: string): number {
  return shapeOf(tensors, name, 4)[0]!;
}
