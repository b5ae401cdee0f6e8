/** What the encoder's moments stand for, and the units that transformers take latents in. */
import { elementwise, slice, type Tensor } from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import type { KlVaeConfig } from "./config.ts";

/** The most likely latents of moments, [..., 2·channels]: means, then log-variances. */
export function posteriorMode(moments: Tensor): Tensor {
  return slice(moments, -1, 0, moments.dim(-1) / 2);
}

/** mean + exp(logvar / 2) · noise, [..., channels], of moments. Source: diffusers `DiagonalGaussianDistribution`. */
export function posteriorSample(moments: Tensor, noise: Tensor): Tensor {
  const channels = moments.dim(-1) / 2;
  return elementwise(
    "mean + exp(0.5 * clamp(logvar, least, most)) * noise",
    {
      mean: slice(moments, -1, 0, channels),
      logvar: slice(moments, -1, channels, 2 * channels),
      noise,
    },
    { scalars: { least: -30, most: 20 }, name: "posterior sample" },
  );
}

/** Latents, [1, height, width, channels], drawn with noise [1, channels, height, width], or the most likely without. */
export function posteriorLatents(moments: Tensor, noise?: Tensor): Tensor {
  if (!noise) return posteriorMode(moments);
  return posteriorSample(moments, rearrange(noise, "1 c y x -> 1 y x c"));
}

export type Scaling = Pick<
  KlVaeConfig,
  "scaling_factor" | "shift_factor" | "latents_mean" | "latents_std"
>;

/** Latents of `AutoencoderKL`, [..., channels], in the transformer's units. */
export function scaleLatents(config: Scaling, latents: Tensor): Tensor {
  const options = { ...scalarsOf(config), name: "scaled latents" };
  const channels = statisticsOf(config, latents);
  return channels
    ? elementwise("(z - mean) * scale / spread", { z: latents, ...channels }, options)
    : elementwise("(z - shift) * scale", { z: latents }, options);
}

export function unscaleLatents(config: Scaling, latents: Tensor): Tensor {
  const options = { ...scalarsOf(config), name: "unscaled latents" };
  const channels = statisticsOf(config, latents);
  return channels
    ? elementwise("z * spread / scale + mean", { z: latents, ...channels }, options)
    : elementwise("z / scale + shift", { z: latents }, options);
}

function scalarsOf(
  { scaling_factor, shift_factor, latents_mean: mean, latents_std: std }: Scaling,
) {
  const scale = scaling_factor;
  return { scalars: mean && std ? { scale } : { shift: shift_factor, scale } };
}

function statisticsOf({ latents_mean: mean, latents_std: std }: Scaling, { graph }: Tensor) {
  if (!mean || !std) return undefined;
  return {
    mean: graph.constant("latents' mean", [mean.length], "f32", mean),
    spread: graph.constant("latents' std", [std.length], "f32", std),
  };
}
