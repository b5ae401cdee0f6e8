/** Tiny decoders in single files: as their author publishes them, and as diffusers does. */
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, shapeOf } from "../../checkpoints/component_format.ts";
import type { Layout } from "../../layouts.ts";

/** Layers of an image decoder whose files count the clamping before them as layer 0; diffusers does not. */
const LAYERS = 19;

/** Modules of a layer. */
const MODULES = ["", ".conv.0", ".conv.2", ".conv.4"];

const ORIGINAL: Layout = {
  name: "original tiny decoder",
  prefixes: [],
  entries: Array.from({ length: LAYERS }, (_, i) =>
    MODULES.map((module) => ({
      theirs: `${i + 1}${module}`,
      ours: [`decoder.layers.${i}${module}`],
    }))).flat(),
};

/** The convolutions that begin the levels of TAEHV's decoder, and those that make frames before them. */
const LEVELS = [1, 8, 14, 20] as const;
const GROWTHS = [7, 13, 19] as const;
const LAST = 22;

/** TAESD's kind, for images: TAEF1 and others. */
export const TAESD_FORMAT: ComponentFormat = {
  name: "a tiny decoder of images",
  component: "tiny_decoder",
  className: "AutoencoderTiny",
  namings: [
    { probes: ["decoder.layers.2.conv.0.weight", "decoder.layers.18.weight"] },
    { probes: ["3.conv.0.weight", "19.weight"], layout: ORIGINAL },
  ],
  // FLUX.2's has a norm over the whole image in its first blocks, SANA's more levels.
  fits: (tensors) =>
    tensors.find("decoder.layers.18.weight") !== undefined &&
    tensors.find("decoder.layers.2.pool.0.weight") === undefined &&
    ![...tensors.names].some((name) => /(^|\.)3\.pool\./.test(name)),
  config: (tensors) => ({
    _class_name: "AutoencoderTiny",
    latent_channels: shapeOf(tensors, "decoder.layers.0.weight", 4)[1]!,
    decoder_block_out_channels: [2, 7, 12, 17].map((layer) =>
      shapeOf(tensors, `decoder.layers.${layer}.conv.0.weight`, 4)[0]!
    ),
  }),
};

/** TAEHV's kind, for videos: TAEW 2.1 and 2.2. */
export const TAEHV_FORMAT: ComponentFormat = {
  name: "a tiny decoder of videos",
  component: "tiny_decoder",
  className: "TAEHV",
  namings: [{ probes: [`decoder.${LAST}.weight`, "decoder.3.conv.0.weight"] }],
  config: (tensors) => ({
    _class_name: "TAEHV",
    latent_channels: shapeOf(tensors, "decoder.1.weight", 4)[1]!,
    decoder_block_out_channels: LEVELS.map((layer) =>
      shapeOf(tensors, `decoder.${layer}.weight`, 4)[0]!
    ),
    time_upscale: GROWTHS.map((layer) => {
      const [more, channels] = growth(tensors, layer);
      return more / channels;
    }),
    patch_size: Math.sqrt(shapeOf(tensors, `decoder.${LAST}.weight`, 4)[0]! / 3),
  }),
};

function growth(tensors: TensorSource, layer: number): [number, number] {
  return shapeOf(tensors, `decoder.${layer}.conv.weight`, 2) as [number, number];
}
