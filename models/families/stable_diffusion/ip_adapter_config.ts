/** IP-Adapters in files: their kinds, told by names, and their sizes. */
import { z } from "zod";
import { IP_ADAPTER_PARTS } from "../../../hub/model_index.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import type { IpAdapterMode } from "../../pipeline/settings.ts";
import { transformerModules, type UnetConfig } from "./unet_config.ts";

const COUNT = z.int().positive().max(1024);
const WIDTH = z.int().positive().multipleOf(4);

/** Width of a head of the queries of `plus`. */
export const QUERY_HEAD_DIM = 64;

const SHARED = z.object({
  /** Which width of the image encoder it sees, and how large that is. */
  sees: z.enum(["projection_dim", "hidden_size"]),
  image_dim: WIDTH,
  cross_attention_dim: WIDTH,
  /** Channels of every cross-attention of the UNet, those of the middle last. */
  widths: z.array(WIDTH).min(1),
});

/** Files have no `config.json`: all is told by their tensors. */
export const IP_ADAPTER_CONFIG = z.discriminatedUnion("kind", [
  /** A layer makes tokens of an image's embedding. */
  SHARED.extend({ kind: z.literal("plain"), num_tokens: COUNT }),
  /** Layers make a token of each state. */
  SHARED.extend({ kind: z.literal("full") }),
  /** Queries make tokens of what they find in the states. */
  SHARED.extend({
    kind: z.literal("plus"),
    num_tokens: COUNT,
    hidden_dim: WIDTH,
    inner_dim: WIDTH.multipleOf(QUERY_HEAD_DIM),
    depth: COUNT,
  }),
]);

export type IpAdapterConfig = z.output<typeof IP_ADAPTER_CONFIG>;
export type IpAdapterPlusConfig = Extract<IpAdapterConfig, { kind: "plus" }>;

/** Cross-attentions of a UNet as files count them, which the reference's modules give: the middle comes last. */
export function countedModules(config: UnetConfig): ReturnType<typeof transformerModules> {
  const all = transformerModules(config);
  const isMiddle = ({ name }: { readonly name: string }) => name.startsWith("mid_block.");
  return [...all.filter((module) => !isMiddle(module)), ...all.filter(isMiddle)];
}

/** The place of the weights of a cross-attention: self-attentions, which have none, are counted, too. */
export function ipAdapterScope(index: number): string {
  return `ip_adapter.${2 * index + 1}`;
}

/**
 * Whether a transformer block sees images.
 * Source: Wang et al. 2024, "InstantStyle: Free Lunch towards Style-Preserving in Text-to-Image Generation".
 */
export function seesImages(
  { down_block_types: down }: UnetConfig,
  mode: IpAdapterMode,
): (module: string) => boolean {
  const level = down.lastIndexOf("CrossAttnDownBlock2D");
  const [style, layout] = ["up_blocks.0.attentions.1.", `down_blocks.${level}.attentions.1.`];
  return (module) =>
    mode === "all" || mode !== "layout" && module.startsWith(style) ||
    mode !== "style" && module.startsWith(layout);
}

/** IP-Adapters, or their configurations, in the order in which images go to them. */
export function ipAdapters<Adapter>(
  parts: { readonly [Part in typeof IP_ADAPTER_PARTS[number]]: Adapter | undefined },
): Adapter[] {
  return IP_ADAPTER_PARTS.map((part) => parts[part]).filter((adapter) => adapter !== undefined);
}

export const IP_ADAPTER: ComponentFormat = {
  name: "an IP-Adapter for Stable Diffusion",
  component: "ip_adapter",
  className: "IPAdapter",
  namings: [{ probes: ["ip_adapter.1.to_k_ip.weight", "ip_adapter.1.to_v_ip.weight"] }],
  config(tensors) {
    const has = (name: string) => tensors.find(`image_proj.${name}`) !== undefined;
    const shape = (name: string, rank: number) => shapeOf(tensors, `image_proj.${name}`, rank);
    const keys = (index: number) => `${ipAdapterScope(index)}.to_k_ip.weight`;
    const count = [...tensors.names].filter((name) => /\d\.to_k_ip\.weight$/.test(name)).length;
    const text = shapeOf(tensors, keys(0), 2)[1]!;
    const shared = {
      cross_attention_dim: text,
      widths: Array.from({ length: count }, (_, i) => shapeOf(tensors, keys(i), 2)[0]!),
    };
    if (has("proj.weight")) {
      const [rows, columns] = shape("proj.weight", 2) as [number, number];
      const sizes = { sees: "projection_dim", image_dim: columns, num_tokens: rows / text };
      return { kind: "plain", ...sizes, ...shared };
    }
    if (has("proj.3.weight")) {
      const image_dim = shape("proj.0.weight", 2)[1]!;
      return { kind: "full", sees: "hidden_size", image_dim, ...shared };
    }
    if (!has("latents")) throw foreign(tensors);
    const [, num_tokens, hidden_dim] = shape("latents", 3) as [number, number, number];
    return {
      kind: "plus",
      sees: "hidden_size",
      image_dim: shape("proj_in.weight", 2)[1]!,
      num_tokens,
      hidden_dim,
      inner_dim: shape("layers.0.0.to_q.weight", 2)[0]!,
      depth: countModules(tensors, "image_proj.layers."),
      ...shared,
    };
  },
};

function foreign({ path, names }: TensorSource): TypeError {
  const isFace = [...names].some((name) =>
    /^image_proj\.(?:perceiver_resampler\.|norm\.weight$)/.test(name)
  );
  return new TypeError(
    `Cannot use "${path}": it is ${
      isFace
        ? "an IP-Adapter FaceID, which sees faces by the face recognition of InsightFace; that is not here"
        : "an IP-Adapter of a kind that is not known"
    }; name an IP-Adapter, IP-Adapter Plus or IP-Adapter Full Face, of which "plus-face" and "full-face" see faces by CLIP`,
  );
}
