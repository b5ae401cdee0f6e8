/**
 * IP-Adapters: images become tokens, to which every cross-attention of the UNet attends beside the text.
 * Source: Ye et al. 2023, "IP-Adapter: Text Compatible Image Prompt Adapter for Text-to-Image Diffusion Models"; diffusers
 * `ImageProjection`, `IPAdapterFullImageProjection`, `IPAdapterPlusImageProjection` and `IPAdapterAttnProcessor2_0`.
 */
import {
  attention,
  concat,
  type DeviceTensor,
  f32,
  gather,
  layerNorm,
  slice,
  type Tensor,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import { affine } from "../../blocks/clip_layer.ts";
import { forEachSample, linearLayer } from "../../blocks/layers.ts";
import { clipImageEmbeds, clipVision, toClipPixels } from "../../image_encoders/clip_vision.ts";
import type { Session } from "../../memory/session.ts";
import { controlNetInfos } from "../../pipeline/control_nets.ts";
import { isSteeredBy } from "../../pipeline/control_units.ts";
import type { IpAdapterMode } from "../../pipeline/settings.ts";
import { cubicResize } from "../../pipeline/cubic_resize.ts";
import type { LatentSize } from "../../pipeline/latents.ts";
import { type ImageGroup, imageGroups } from "../../pipeline/references.ts";
import type { InputImage } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import type { TextState } from "./conditioning.ts";
import type { UnetParts } from "./config.ts";
import {
  countedModules,
  type IpAdapterConfig,
  type IpAdapterPlusConfig,
  ipAdapters,
  ipAdapterScope,
  QUERY_HEAD_DIM,
  seesImages,
} from "./ip_adapter_config.ts";
import type { SeenImages } from "./unet.ts";
import { transformerModules, type UnetConfig } from "./unet_config.ts";

const EPS = 1e-5;
/** How much wider the feed-forward of queries is. */
const WIDENING = 4;
/** The darkest value that a mask has where an image is seen. */
const WHITE = 128;

/** Tokens of images, [images, tokens, cross_attention_dim], of their embeddings, [images, image_dim], or states. */
export function imageTokens(config: IpAdapterConfig, root: WeightScope, seen: Tensor): Tensor {
  const weights = root.scope("image_proj");
  const { cross_attention_dim: dim } = config;
  const normed = (x: Tensor, name: string) =>
    layerNorm(x, { eps: EPS, ...affine(x.graph, weights, name, dim) });
  if (config.kind === "plain") {
    const all = linearLayer(weights, "proj", seen, config.num_tokens * dim);
    return normed(all.reshape(-1, config.num_tokens, dim), "norm");
  }
  if (config.kind === "full") {
    const hidden = linearLayer(weights, "proj.0", seen, seen.dim(-1), { activation: "gelu" });
    return normed(linearLayer(weights, "proj.2", hidden, dim), "proj.3");
  }
  const queries = resampled(config, weights, seen);
  return normed(linearLayer(weights, "proj_out", queries, dim), "norm_out");
}

/** What queries find in an image's states, [images, num_tokens, hidden_dim]. */
function resampled(
  { num_tokens: count, hidden_dim, inner_dim, depth }: IpAdapterPlusConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const { graph } = states;
  const images = states.dim(0);
  const split = (x: Tensor) => x.reshape(images, x.dim(1), -1, QUERY_HEAD_DIM);
  let latents = forEachSample(weights.tensor(graph, "latents", [1, count, hidden_dim]), images);
  const x = linearLayer(weights, "proj_in", states, hidden_dim);
  for (let i = 0; i < depth; i++) {
    const own = weights.scope(`layers.${i}.0`);
    const normed = (x: Tensor, name: string) =>
      layerNorm(x, { eps: EPS, ...affine(graph, own, name, hidden_dim) });
    const queries = normed(latents, "norm2");
    const query = linearLayer(own, "to_q", queries, inner_dim);
    const seen = concat([normed(x, "norm1"), queries], 1);
    const both = linearLayer(own, "to_kv", seen, 2 * inner_dim);
    const [key, value] = [0, 1].map((i) => slice(both, 2, i * inner_dim, (i + 1) * inner_dim));
    const found = attention(split(query), split(key!), split(value!)).reshape(...query.shape);
    latents = linearLayer(own, "to_out", found, hidden_dim, { residual: latents });
    const forward = weights.scope(`layers.${i}.1`);
    const norm = { eps: EPS, ...affine(graph, forward, "0", hidden_dim) };
    const hidden = linearLayer(forward, "1", latents, WIDENING * hidden_dim, {
      norm,
      activation: "gelu",
    });
    latents = linearLayer(forward, "3", hidden, hidden_dim, { residual: latents });
  }
  return latents;
}

/** Keys and values of the UNet's cross-attentions that see images, of tokens, [1, tokens, cross_attention_dim]. */
export function unetImageStates(
  config: UnetConfig,
  weights: WeightScope,
  tokens: Tensor,
  mode: IpAdapterMode,
): TextState[] {
  const places = countedModules(config).map(({ name }) => name);
  return seeingModules(config, mode).map(({ name, channels, heads }) => {
    const scope = weights.scope(ipAdapterScope(places.indexOf(name)));
    const project = (part: string) =>
      linearLayer(scope, part, tokens, channels)
        .reshape(1, tokens.dim(1), heads, channels / heads);
    return tokens.graph.scope(name, () => ({ key: project("to_k_ip"), value: project("to_v_ip") }));
  });
}

function seeingModules(
  config: UnetConfig,
  mode: IpAdapterMode,
): ReturnType<typeof transformerModules> {
  const isSeeing = seesImages(config, mode);
  return transformerModules(config).filter(({ name }) => isSeeing(name));
}

interface TracedIpAdapters {
  /** What the prompt's pass, or others, which see no image, have of all groups. */
  states(pass: number): readonly StoredState[];
  seen(states: readonly TextState[], step: Tensor): SeenImages[];
  run(work: Work): Promise<void>;
}

type StoredState = { readonly key: DeviceTensor; readonly value: DeviceTensor };

interface SeeingShape {
  /** Without weights, which a shape does not depend on. */
  readonly groups: readonly SeenGroup[];
  readonly isGuided: boolean;
  readonly steps: number;
  /** Of the latents. */
  readonly size: LatentSize;
}

export type SeenGroup = Pick<ImageGroup, "adapter" | "images" | "isMasked" | "mode">;

export function traceIpAdapters(
  session: Session,
  parts: UnetParts,
  { groups, isGuided, steps, size }: SeeingShape,
): TracedIpAdapters {
  const { transformer, imageEncoder } = parts;
  const adapters = ipAdapters(parts);
  const { config: vision } = imageEncoder!;
  const side = vision.image_size;
  const scales = session.tensor("ip adapter scales", [steps, groups.length]);
  const levels = groups.some(({ isMasked }) => isMasked)
    ? levelSizes(transformer.config, size)
    : [];
  const masks = groups.map(({ isMasked }, i) =>
    isMasked
      ? levels.map(({ height, width }, level) =>
        session.tensor(`ip adapter mask ${i} ${level}`, [1, height * width, 1])
      )
      : []
  );
  session.encodeSteps++;
  const stage = session.stage("encode", { name: "ip adapter" });
  const used = adapters.flatMap((_, place) => {
    const own = groups.flatMap((group, i) => group.adapter === place ? [i] : []);
    return own.length > 0 ? [{ adapter: adapters[place]!, own }] : [];
  });
  const branches = used.map(({ adapter: { config, weights: { root } }, own }, branch) => {
    const isPlain = config.kind === "plain";
    const places = own.flatMap((i) => groups[i]!.images);
    // As the reference has it: without guidance's prompt an embedding is zero, or the image is.
    const images = places.length + Number(isGuided && !isPlain);
    const program = stage.program(
      `images ${branch}`,
      { pixels: f32(images, side, side, 3) },
      ({ pixels }, graph) => {
        const states = clipVision(graph, vision, imageEncoder!.weights.root, pixels);
        const seen = isPlain ? clipImageEmbeds(vision, imageEncoder!.weights.root, states) : states;
        const zero = new Float32Array(config.image_dim);
        const all = isGuided && isPlain
          ? concat([seen, graph.constant("no image", [1, zero.length], "f32", zero)], 0)
          : seen;
        const tokens = imageTokens(config, root, all);
        const part = (from: number, to: number, mode: IpAdapterMode) => {
          const part = slice(tokens, 0, from, to).reshape(1, -1, tokens.dim(2));
          return unetImageStates(transformer.config, root, part, mode);
        };
        let from = 0;
        const given = own.map((i) => {
          const { images, mode } = groups[i]!;
          return part(from, from += images.length, mode);
        });
        const unseen = (mode: IpAdapterMode) => part(places.length, places.length + 1, mode);
        const modes = new Set(isGuided ? own.map((i) => groups[i]!.mode) : []);
        return {
          given,
          unseen: Object.fromEntries([...modes].map((mode) => [mode, unseen(mode)])),
        };
      },
    );
    return { program, places, images, own };
  });
  return {
    states: (pass) =>
      groups.flatMap(({ mode }, i) => {
        const { program: { outputs }, own } = branches.find(({ own }) => own.includes(i))!;
        return pass === 0 ? outputs.given[own.indexOf(i)]! : outputs.unseen[mode]!;
      }),
    seen(states, step) {
      const { graph } = step;
      const now = gather(graph.use(scales), step);
      let from = 0;
      return groups.map(({ mode, isMasked }, i) => ({
        states: states.slice(from, from += seeingModules(transformer.config, mode).length),
        mode,
        scale: slice(now, 1, i, i + 1).reshape(1),
        masks: isMasked
          ? new Map(masks[i]!.map((mask) => [mask.shape[1]!, graph.use(mask)]))
          : undefined,
      }));
    },
    async run(work) {
      const { request } = work;
      const { references, referenceMasks } = request;
      const given = imageGroups(request, controlNetInfos(adapters));
      const values = Array.from(
        { length: steps },
        (_, i) => given.map((group) => isSteeredBy(group, i, steps) ? group.scale : 0),
      ).flat();
      const calls = branches.map(({ program, places, images }) => {
        const pixels = new Float32Array(images * side * side * 3);
        places.forEach((place, i) =>
          pixels.set(toClipPixels(references![place]!.data), i * side * side * 3)
        );
        return program.call({ pixels });
      });
      const shown = groups.flatMap(({ isMasked, images: [image] }, i) =>
        isMasked
          ? levels.map((level, at) =>
            writing(masks[i]![at]!, tokenMask(referenceMasks![image!]!, level))
          )
          : []
      );
      await work.run([writing(scales, values), ...shown, ...calls], {
        finished: () => work.encodeDone(),
      });
    },
  };
}

/** Sizes of a UNet's levels; each is half as high and wide as the one before, rounded up. */
function levelSizes({ block_out_channels: widths }: UnetConfig, size: LatentSize): LatentSize[] {
  return widths.map((_, level) => ({
    height: Math.ceil(size.height / 2 ** level),
    width: Math.ceil(size.width / 2 ** level),
  }));
}

/** 1 where an image is seen and 0 elsewhere, a little beyond at edges. Source: diffusers `IPAdapterMaskProcessor`. */
function tokenMask({ data, ...size }: InputImage, level: LatentSize): Float32Array {
  const binary = Uint8Array.from(data, (value) => Number(value >= WHITE));
  return cubicResize({ ...size, data: binary }, level).filter((_, i) => i % 3 === 0);
}
