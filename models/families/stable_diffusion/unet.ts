/**
 * The UNet of Stable Diffusion, channels-last.
 * Source: Rombach et al. 2022, "High-Resolution Image Synthesis with Latent Diffusion Models"; diffusers
 * `UNet2DConditionModel`, `CrossAttnDownBlock2D`, `CrossAttnUpBlock2D` and `Transformer2DModel`.
 */
import {
  attention,
  concat,
  elementwise,
  gather,
  type Graph,
  groupNorm,
  layerNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { normOf, residualBlock } from "../../autoencoders/kl/blocks.ts";
import { affine } from "../../blocks/clip_layer.ts";
import {
  convolutionLayer,
  linearLayer,
  linearLayers,
  packedGluLayer,
} from "../../blocks/layers.ts";
import { steered } from "../../pipeline/control.ts";
import type { IpAdapterMode } from "../../pipeline/settings.ts";
import type { TextState } from "./conditioning.ts";
import { seesImages } from "./ip_adapter_config.ts";
import { type UnetBlock, unetBlocks, type UnetConfig } from "./unet_config.ts";

/** Epsilons of the norms in transformers, whatever `norm_eps` is. */
const [GROUP_EPS, LAYER_EPS] = [1e-6, 1e-5];
/** How much wider the feed-forward is. */
const WIDENING = 4;

export interface UnetInputs {
  /** [1, height, width, in_channels], scaled for its noise level. */
  readonly sample: Tensor;
  /** Of every transformer block. */
  readonly text: readonly TextState[];
  /** Of every residual block. */
  readonly times: readonly Tensor[];
  /** The row of the time tables, u32 [1]. */
  readonly step: Tensor;
  readonly steering?: readonly UnetSteering[] | undefined;
  readonly images?: readonly SeenImages[] | undefined;
}

/** What an IP-Adapter makes of images that are seen together. */
export interface SeenImages {
  /** Of every transformer block that sees them. */
  readonly states: readonly TextState[];
  readonly mode: IpAdapterMode;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
  /** Where they are seen, f32 [1, tokens, 1] by the number of tokens; everywhere by default. */
  readonly masks?: ReadonlyMap<number, Tensor> | undefined;
}

/** What a ControlNet adds to the skip connections and to the middle, or an adapter to each level on the way down. */
export interface UnetSteering {
  /** What a projection takes instead of `x`, where a ControlNet-LLLite changes it. */
  readonly input?: (module: string, x: Tensor, scale: Tensor) => Tensor;
  readonly states?: UnetStates;
  readonly features?: readonly Tensor[];
  /** Weight, f32 [1], or one for each place, [places]. */
  readonly scale: Tensor;
}

/** What the way down leaves: every skip connection, and the middle's result. */
export interface UnetStates {
  readonly skips: readonly Tensor[];
  readonly mid: Tensor;
}

/** The UNet's output, [1, height, width, out_channels]: noise, v or x0, as the model was trained. */
export function unet(
  graph: Graph,
  config: UnetConfig,
  weights: WeightScope,
  inputs: UnetInputs,
): Tensor {
  const { up } = unetBlocks(config);
  const { sample, steering = [] } = inputs;
  const layer = unetLayers(config, weights, inputs);
  const steer = (x: Tensor, place: number, of: (own: UnetSteering) => Tensor | undefined) =>
    steering.reduce((x, own) => {
      const residual = of(own);
      if (!residual) return x;
      const { scale } = own;
      const at = scale.dim(0) === 1 ? scale : slice(scale, 0, place, place + 1);
      return steered(x, residual, at);
    }, x);
  const own = unetDown(graph, config, weights, sample, layer, {
    atLevel: (x, level) => steer(x, level, ({ features }) => features?.[level]),
  });
  const skips = own.skips.map((skip, i) => steer(skip, i, ({ states }) => states?.skips[i]));
  let x = steer(own.mid, skips.length, ({ states }) => states?.mid);
  for (const [level, block] of up.entries()) {
    for (const i of block.depths.keys()) x = layer(block, i, concat([x, skips.pop()!], -1));
    if (level === up.length - 1) continue;
    const [, height, width] = skips.at(-1)!.shape as [number, number, number];
    x = graph.scope(block.name, () => upsampled(weights.scope(block.name), x, height, width));
  }
  const norm = normOf(config, weights, "conv_norm_out", x, { eps: config.norm_eps });
  return convolutionLayer(weights, "conv_out", x, config.out_channels, { norm });
}

type UnetLayer = (block: UnetBlock, i: number, x: Tensor) => Tensor;

/** The layers of a UNet or a ControlNet, which must be called in the order of the forward pass. */
function unetLayers(
  config: UnetConfig,
  weights: WeightScope,
  inputs: Pick<UnetInputs, "text" | "times" | "step" | "images" | "steering">,
): UnetLayer {
  const { images = [], steering = [] } = inputs;
  const changing = steering.filter(({ input }) => input);
  const seen = images.map(({ states, mode, ...own }) => {
    const [left, isSeeing] = [states.values(), seesImages(config, mode)];
    return (module: string) => isSeeing(module) ? { ...own, state: left.next().value! } : undefined;
  });
  const given = {
    text: inputs.text.values(),
    images: (module: string) =>
      seen.map((stateOf) => stateOf(module)).filter((state) => state !== undefined),
    times: inputs.times.values(),
    step: inputs.step,
    input: changing.length === 0
      ? undefined
      : (module: string, x: Tensor) =>
        changing.reduce((x, { input, scale }) => input!(module, x, scale), x),
  };
  return (block, i, x) => unetLayer(config, weights, block, i, x, given);
}

interface DownOptions {
  /** Added to what the first convolution gives. */
  readonly hint?: Tensor;
  /** What becomes of a level's result. */
  atLevel?(x: Tensor, level: number): Tensor;
}

function unetDown(
  graph: Graph,
  config: UnetConfig,
  weights: WeightScope,
  sample: Tensor,
  layer: UnetLayer,
  { hint, atLevel = (x) => x }: DownOptions,
): UnetStates {
  const { down, mid } = unetBlocks(config);
  let x = convolutionLayer(weights, "conv_in", sample, config.block_out_channels[0]!, {
    residual: hint,
  });
  const skips = [x];
  for (const [level, block] of down.entries()) {
    for (const i of block.depths.keys()) skips.push(x = layer(block, i, x));
    // As the reference does: what attends is changed before its downsampler, what does not behind it.
    const attends = block.depths[0]! > 0;
    if (attends) skips.splice(-1, 1, x = atLevel(x, level));
    if (level < down.length - 1) {
      x = graph.scope(
        block.name,
        () =>
          convolutionLayer(weights.scope(block.name), "downsamplers.0.conv", x, block.channels, {
            stride: [2, 2],
          }),
      );
      skips.push(x);
    }
    if (!attends) skips.splice(-1, 1, x = atLevel(x, level));
  }
  for (const i of mid?.depths.keys() ?? []) x = layer(mid!, i, x);
  return { skips, mid: x };
}

/** The way down and the middle of a ControlNet; the picture is added to what its first convolution gives. */
export function unetStates(
  graph: Graph,
  config: UnetConfig,
  weights: WeightScope,
  { sample, ...inputs }: UnetInputs,
  hint: Tensor,
): UnetStates {
  return unetDown(graph, config, weights, sample, unetLayers(config, weights, inputs), { hint });
}

/** Twice as high and wide, or one less where the level before had an odd size. */
function upsampled(weights: WeightScope, x: Tensor, height: number, width: number): Tensor {
  const name = "upsamplers.0.conv";
  const [, rows, columns, channels] = x.shape as [number, number, number, number];
  if (height === 2 * rows && width === 2 * columns) {
    return convolutionLayer(weights, name, x, channels, { upsample: 2 });
  }
  const places = Uint32Array.from(
    { length: height * width },
    (_, i) => Math.floor(Math.floor(i / width) / 2) * columns + Math.floor(i % width / 2),
  );
  const indices = x.graph.constant("nearest", [1, height, width], "u32", places);
  return convolutionLayer(weights, name, gather(x.reshape(-1, channels), indices), channels);
}

type ImageState = Pick<SeenImages, "scale" | "masks"> & { readonly state: TextState };

interface LayerInputs {
  /** What the blocks take that come next. */
  readonly text: Iterator<TextState>;
  images(module: string): readonly ImageState[];
  readonly times: Iterator<Tensor>;
  readonly step: Tensor;
  readonly input: ((module: string, x: Tensor) => Tensor) | undefined;
}

/** A residual block, and the transformer behind it. */
function unetLayer(
  config: UnetConfig,
  weights: WeightScope,
  { name, channels, heads, depths }: UnetBlock,
  layer: number,
  x: Tensor,
  { text, images, times, step, input }: LayerInputs,
): Tensor {
  const { graph } = x;
  const resnet = `${name}.resnets.${layer}`;
  const y = graph.scope(resnet, () =>
    residualBlock(config, weights.scope(resnet), x, channels, {
      eps: config.norm_eps,
      bias: gather(times.next().value!, step).reshape(channels),
    }));
  if (depths[layer] === 0) return y;
  const module = `${name}.attentions.${layer}`;
  return graph.scope(module, () => {
    const scope = weights.scope(module);
    const tokens = [y.dim(0), y.dim(1) * y.dim(2), channels];
    const norm = normOf(config, scope, "norm", y, { eps: GROUP_EPS, activation: "none" });
    let h = linearLayer(scope, "proj_in", groupNorm(y, norm).reshape(...tokens), channels);
    for (let i = 0; i < depths[layer]!; i++) {
      const block = `transformer_blocks.${i}`;
      h = graph.scope(
        block,
        () =>
          transformerBlock(scope.scope(block), h, heads, {
            text: text.next().value!,
            images: images(`${module}.${block}`),
            input: input && ((part, x) => input(`${module}.${block}.${part}`, x)),
          }),
      );
    }
    const residual = y.reshape(...tokens);
    return linearLayer(scope, "proj_out", h, channels, { residual }).reshape(...y.shape);
  });
}

interface Context {
  readonly text: TextState;
  readonly images: readonly ImageState[];
  readonly input: ((part: string, x: Tensor) => Tensor) | undefined;
}

/** Attention to itself, to the text and to images, then a feed-forward with GEGLU, each of the norm of what is before. */
function transformerBlock(
  weights: WeightScope,
  x: Tensor,
  heads: number,
  { text, images, input }: Context,
): Tensor {
  const dim = x.dim(-1);
  const norm = (name: string) => ({ eps: LAYER_EPS, ...affine(x.graph, weights, name, dim) });
  const split = (tokens: Tensor) => tokens.reshape(x.dim(0), x.dim(1), heads, dim / heads);
  const own = weights.scope("attn1");
  const parts = ["to_q", "to_k", "to_v"];
  // What one part takes may differ from what the others do.
  const changed = input && layerNorm(x, norm("norm1"));
  const projected = changed
    ? parts.map((part) => linearLayer(own, part, input(`attn1.${part}`, changed), dim))
    : linearLayers(own, parts, x, dim, { norm: norm("norm1") });
  const [q, k, v] = [0, 1, 2].map((i) =>
    split(Array.isArray(projected) ? projected[i]! : slice(projected, 0, i, i + 1))
  );
  const attended = attention(q!, k!, v!, { name: "attn1" }).reshape(...x.shape);
  const y = linearLayer(own, "to_out.0", attended, dim, { residual: x });

  const cross = weights.scope("attn2");
  const query = split(
    input
      ? linearLayer(cross, "to_q", input("attn2.to_q", layerNorm(y, norm("norm2"))), dim)
      : linearLayer(cross, "to_q", y, dim, { norm: norm("norm2") }),
  );
  const seen = ({ key, value }: TextState) =>
    attention(query, key, value, { name: "attn2" }).reshape(...x.shape);
  const context = images.reduce((x, { state, scale, masks }) => {
    const mask = masks?.get(x.dim(1));
    if (!mask) return steered(x, seen(state), scale);
    return elementwise("x + s * (y * m)", { x, s: scale, y: seen(state), m: mask });
  }, seen(text));
  const z = linearLayer(cross, "to_out.0", context, dim, { residual: y });

  const forward = weights.scope("ff.net");
  const hidden = packedGluLayer(forward, "0.proj", z, WIDENING * dim, {
    norm: norm("norm3"),
    activation: "gelu",
    activated: "second",
  });
  return linearLayer(forward, "2", hidden, dim, { residual: z });
}
