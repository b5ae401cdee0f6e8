/**
 * T2I-Adapters: a picture becomes features, which are added to what each level of the UNet gives on the way down.
 * Source: Mou et al. 2023, "T2I-Adapter"; diffusers `T2IAdapter`, whose module names are the weight names.
 */
import { elementwise, gather, slice, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { convolutionLayer, linearLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import type { T2iAdapterConfig } from "./control_config.ts";

/** Channels of a light adapter's blocks inside, as a share of those that they give. */
const LIGHT_SHARE = 4;

/** Features of as many levels, [1, height, width, channels], of RGB in [0, 1], [1, height, width, 3]. */
export function adapterFeatures(
  config: T2iAdapterConfig,
  weights: WeightScope,
  pixels: Tensor,
  levels: number,
): Tensor[] {
  const { adapter_type: type, channels, downscale_factor: scale } = config;
  const scope = weights.scope("adapter");
  const isLight = type === "light_adapter";
  const seen = slice(pixels, 3, 0, config.in_channels);
  const patches = rearrange(seen, "1 (y i) (x j) c -> 1 y x (c i j)", { i: scale, j: scale });
  let x = isLight ? patches : convolutionLayer(scope, "conv_in", patches, channels[0]!);
  const features: Tensor[] = [];
  for (let level = 0; level < levels; level++) {
    const block = scope.scope(`body.${level}`);
    const width = channels[level] ?? channels.at(-1)!;
    if (type === "full_adapter_xl" ? level === 2 : level > 0) x = halved(x);
    const inside = isLight ? width / LIGHT_SHARE : width;
    if (isLight || x.dim(-1) !== inside) x = linearLayer(block, "in_conv", x, inside);
    for (let i = 0; i < config.num_res_blocks; i++) {
      const part = block.scope(`resnets.${i}`);
      const y = convolutionLayer(part, "block1", x, inside, { activation: "relu" });
      x = isLight
        ? convolutionLayer(part, "block2", y, inside, { residual: x })
        : linearLayer(part, "block2", y, inside, { residual: x });
    }
    if (isLight) x = linearLayer(block, "out_conv", x, width);
    features.push(x);
  }
  return features;
}

/** Means of 2 x 2 pixels, of fewer at the edge of an odd size. */
function halved(x: Tensor): Tensor {
  const [, rows, columns, channels] = x.shape as [number, number, number, number];
  const [height, width] = [Math.ceil(rows / 2), Math.ceil(columns / 2)];
  const flat = x.reshape(-1, channels);
  const corner = (down: number, right: number) => {
    const places = Uint32Array.from({ length: height * width }, (_, i) => {
      const row = Math.min(2 * Math.floor(i / width) + down, rows - 1);
      return row * columns + Math.min(2 * (i % width) + right, columns - 1);
    });
    const indices = x.graph.constant(`corner ${down} ${right}`, [1, height, width], "u32", places);
    return gather(flat, indices);
  };
  return elementwise("0.25 * (a + b + c + d)", {
    a: corner(0, 0),
    b: corner(0, 1),
    c: corner(1, 0),
    d: corner(1, 1),
  });
}
