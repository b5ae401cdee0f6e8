/**
 * LTX-2's network that makes latents larger between two passes, [frames, height, width, channels], not normalised.
 * Source: diffusers `pipelines/ltx2/latent_upsampler.py`.
 */
import { z } from "zod";
import {
  causalConv3d,
  concat,
  conv2d,
  elementwise,
  type Graph,
  groupNorm,
  permute,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { convolutionLayer } from "../../blocks/layers.ts";
import { refuse } from "../../config.ts";
import { rearrange } from "../../rearrange.ts";
import { sharedConstant } from "../shared_constant.ts";

/** How many times larger, and then smaller, each scale makes a side. */
const RATIOS: ReadonlyMap<number, readonly [up: number, down: number]> = new Map([
  [0.75, [3, 4]],
  [1.5, [3, 2]],
  [2, [2, 1]],
  [4, [4, 1]],
]);

/** `latent_upsampler/config.json` of `LTX2LatentUpsamplerModel`; defaults are those of the class. */
export const LTX2_LATENT_UPSAMPLER_CONFIG = z.object({
  _class_name: z.literal("LTX2LatentUpsamplerModel").default("LTX2LatentUpsamplerModel"),
  in_channels: z.int().positive().default(128),
  mid_channels: z.int().positive().multipleOf(32).default(1024),
  num_blocks_per_stage: z.int().positive().default(4),
  dims: z.literal(3).default(3),
  spatial_upsample: z.boolean().default(true),
  temporal_upsample: z.boolean().default(false),
  rational_spatial_scale: z.number().positive().default(2),
  use_rational_resampler: z.boolean().default(true),
}).superRefine((config, context) => {
  const { spatial_upsample, temporal_upsample, rational_spatial_scale: scale } = config;
  if (!spatial_upsample && !temporal_upsample) {
    refuse(context, "spatial_upsample", "neither size nor frames become more");
  }
  if (!RATIOS.has(scale)) {
    refuse(context, "rational_spatial_scale", `it must be one of ${[...RATIOS.keys()].join(", ")}`);
  }
});

type Ltx2LatentUpsamplerConfig = z.output<typeof LTX2_LATENT_UPSAMPLER_CONFIG>;

/** How many times longer it makes the sides, and how many frames it makes of some. */
export function upsamplerScale(
  config: Ltx2LatentUpsamplerConfig,
): { readonly spatial: number; readonly frames: (count: number) => number } {
  const { spatial_upsample, temporal_upsample, use_rational_resampler } = config;
  const isRational = use_rational_resampler && !temporal_upsample;
  const scale = isRational ? config.rational_spatial_scale : 2;
  return {
    spatial: spatial_upsample ? scale : 1,
    frames: (count) => temporal_upsample ? 2 * count - 1 : count,
  };
}

/** Groups of the normalisations. */
const GROUPS = 32;
const NORM_EPS = 1e-5;
/** Side of the binomial kernel that blurs before rows and columns are left out. */
const BLUR = [1, 4, 6, 4, 1];

/** Convolution of 3 x 3 x 3 with zeros all around, frames too. */
function convolve(weights: WeightScope, name: string, x: Tensor, outChannels: number): Tensor {
  const { graph } = x;
  const scope = weights.scope(name);
  const shape = [outChannels, x.dim(-1), 3, 3, 3];
  const [, , height, width, channels] = x.shape as [number, number, number, number, number];
  const after = sharedConstant(graph, `zeros ${height}x${width}x${channels}`, {
    shape: [1, 1, height, width, channels],
    dtype: "f32",
    values: () => new Float32Array(height * width * channels),
  });
  return causalConv3d(
    concat([x, after], 1),
    scope.tensor(graph, "weight", shape, "channels-last"),
    {
      bias: scope.tensor(graph, "bias", [outChannels]),
      padding: [1, 1, 1, 1],
      frontPadding: 1,
      name,
    },
  );
}

function norm(
  weights: WeightScope,
  name: string,
  x: Tensor,
  activation: "silu" | "none",
): Tensor {
  const scope = weights.scope(name);
  return groupNorm(x, {
    groups: GROUPS,
    eps: NORM_EPS,
    weight: scope.tensor(x.graph, "weight", [x.dim(-1)]),
    bias: scope.tensor(x.graph, "bias", [x.dim(-1)]),
    activation,
    name,
  });
}

function residualBlock(weights: WeightScope, x: Tensor): Tensor {
  const channels = x.dim(-1);
  const h = norm(weights, "norm1", convolve(weights, "conv1", x, channels), "silu");
  const y = norm(weights, "norm2", convolve(weights, "conv2", h, channels), "none");
  return elementwise("act_silu(x + y)", { x, y });
}

function residualBlocks(weights: WeightScope, name: string, x: Tensor, count: number): Tensor {
  let h = x;
  for (let i = 0; i < count; i++) {
    h = x.graph.scope(`${name}.${i}`, () => residualBlock(weights.scope(name).scope(i), h));
  }
  return h;
}

/** Larger frames, [frames, height, width, channels]. */
function enlarge(weights: WeightScope, x: Tensor, config: Ltx2LatentUpsamplerConfig): Tensor {
  const channels = x.dim(-1);
  const [up, down] = config.use_rational_resampler
    ? RATIOS.get(config.rational_spatial_scale)!
    : [2, 1];
  const name = config.use_rational_resampler ? "conv" : 0;
  const wide = convolutionLayer(weights, name, x, channels * up ** 2);
  const larger = rearrange(wide, "f y x (c i j) -> f (y i) (x j) c", { i: up, j: up });
  if (down === 1) return larger;
  const sum = BLUR.reduce((all, one) => all + one, 0);
  const kernel = x.graph.constant(
    "blur",
    [1, BLUR.length, BLUR.length, 1],
    "f32",
    BLUR.flatMap((row) => BLUR.map((column) => row * column / sum ** 2)),
  );
  const [frames, height, width] = larger.shape as [number, number, number];
  const planes = permute(larger, [0, 3, 1, 2]).reshape(frames * channels, height, width, 1);
  const half = (BLUR.length - 1) / 2;
  const smaller = conv2d(planes, kernel, {
    stride: [down, down],
    padding: [half, half, half, half],
    name: "blur",
  });
  const [, rows, columns] = smaller.shape as [number, number, number];
  return permute(smaller.reshape(frames, channels, rows, columns), [0, 2, 3, 1]);
}

export function ltx2LatentUpsampler(
  graph: Graph,
  config: Ltx2LatentUpsamplerConfig,
  weights: WeightScope,
  latents: Tensor,
): Tensor {
  const { mid_channels: channels, num_blocks_per_stage: blocks } = config;
  const { spatial_upsample: isLarger, temporal_upsample: isLonger } = config;
  const video = latents.reshape(1, ...latents.shape);
  const first = norm(
    weights,
    "initial_norm",
    convolve(weights, "initial_conv", video, channels),
    "silu",
  );
  const before = residualBlocks(weights, "res_blocks", first, blocks);
  const upsampled = graph.scope("upsampler", () => {
    const scope = weights.scope("upsampler");
    if (!isLonger) {
      const images = enlarge(scope, before.reshape(...before.shape.slice(1)), config);
      return images.reshape(1, ...images.shape);
    }
    const [t, i, j] = isLarger ? [2, 2, 2] : [2, 1, 1];
    const wide = convolve(scope, "0", before, channels * t! * i! * j!);
    const all = rearrange(wide, "1 f y x (c t i j) -> 1 (f t) (y i) (x j) c", {
      t: t!,
      i: i!,
      j: j!,
    });
    // The first latent frame is a single frame of the video.
    return slice(all, 1, 1);
  });
  const after = residualBlocks(weights, "post_upsample_res_blocks", upsampled, blocks);
  const y = convolve(weights, "final_conv", after, config.in_channels);
  return y.reshape(...y.shape.slice(1));
}
