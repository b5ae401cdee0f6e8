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
import { isSteeredBy } from "../../pipeline/control_units.ts";
import type { IpAdapterMode } from "../../pipeline/settings.ts";
import type { Work } from "../../pipeline/work.ts";
import type { TextState } from "./conditioning.ts";
import type { SdParts } from "./config.ts";
import {
  countedModules,
  type IpAdapterConfig,
  type IpAdapterPlusConfig,
  ipAdapterScope,
  QUERY_HEAD_DIM,
  seesImages,
} from "./ip_adapter_config.ts";
import { transformerModules, type UnetConfig } from "./unet_config.ts";

const EPS = 1e-5;
/** How much wider the feed-forward of queries is. */
const WIDENING = 4;

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
  const isSeeing = seesImages(config, mode);
  const seeing = transformerModules(config).filter(({ name }) => isSeeing(name));
  return seeing.map(({ name, channels, heads }) => {
    const scope = weights.scope(ipAdapterScope(places.indexOf(name)));
    const project = (part: string) =>
      linearLayer(scope, part, tokens, channels)
        .reshape(1, tokens.dim(1), heads, channels / heads);
    return tokens.graph.scope(name, () => ({ key: project("to_k_ip"), value: project("to_v_ip") }));
  });
}

interface TracedIpAdapter {
  /** Of the prompt's pass and of others, which see no image. */
  states(pass: number): readonly { readonly key: DeviceTensor; readonly value: DeviceTensor }[];
  /** Weight of the images, f32 [1]. */
  scale(step: Tensor): Tensor;
  run(work: Work): Promise<void>;
}

export function traceIpAdapter(
  session: Session,
  { transformer, ipAdapter, imageEncoder }: SdParts,
  { references, mode, isGuided, steps }: {
    readonly references: number;
    readonly mode: IpAdapterMode;
    readonly isGuided: boolean;
    readonly steps: number;
  },
): TracedIpAdapter {
  const { config, weights: { root } } = ipAdapter!;
  const { config: vision, weights: tower } = imageEncoder!;
  const isPlain = config.kind === "plain";
  // As the reference has it: without guidance's prompt an embedding is zero, or the image is.
  const images = references + Number(isGuided && !isPlain);
  const side = vision.image_size;
  const scales = session.tensor("ip adapter scales", [steps, 1]);
  session.encodeSteps++;
  const program = session.stage("encode", { name: "ip adapter" }).program(
    "images",
    { pixels: f32(images, side, side, 3) },
    ({ pixels }, graph) => {
      const states = clipVision(graph, vision, tower.root, pixels);
      const seen = isPlain ? clipImageEmbeds(vision, tower.root, states) : states;
      const zero = new Float32Array(config.image_dim);
      const all = isGuided && isPlain
        ? concat([seen, graph.constant("no image", [1, zero.length], "f32", zero)], 0)
        : seen;
      const tokens = imageTokens(config, root, all);
      const part = (from: number, to: number) => {
        const own = slice(tokens, 0, from, to).reshape(1, -1, tokens.dim(2));
        return unetImageStates(transformer.config, root, own, mode);
      };
      const others = isGuided ? [part(references, references + 1)] : [];
      return [part(0, references), ...others];
    },
  );
  return {
    states: (pass) => program.outputs[Math.min(pass, 1)]!,
    scale: (step) => gather(step.graph.use(scales), step).reshape(1),
    async run(work) {
      const { ipAdapterScale: weight = 1, ipAdapterStart = 0, ipAdapterEnd = 1 } = work.request;
      const window = { start: ipAdapterStart, end: ipAdapterEnd };
      const values = Array.from(
        { length: steps },
        (_, i) => isSteeredBy(window, i, steps) ? weight : 0,
      );
      const pixels = new Float32Array(images * side * side * 3);
      work.request.references!.forEach(({ data }, i) =>
        pixels.set(toClipPixels(data), i * side * side * 3)
      );
      await work.run([writing(scales, values), program.call({ pixels })], {
        finished: () => work.encodeDone(),
      });
    },
  };
}
