/**
 * ControlNet-LLLite: a picture changes what the UNet's attentions project, and no pass of its own is needed.
 * Source: kohya-ss/sd-scripts `networks/control_net_lllite.py`.
 */
import { z } from "zod";
import {
  concat,
  conv2d,
  elementwise,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { type ComponentFormat, shapeOf } from "../../checkpoints/component_format.ts";
import { toOurs } from "../../layouts.ts";
import { LDM_UNET } from "./unet_layout.ts";

const COUNT = z.int().positive();
const WIDTH = COUNT.multipleOf(4);
/** The last of a module's convolutions, counted with the activations between them. */
const LAST_CONVOLUTION = 4;

/** Files have no `config.json`: all is told by their tensors. */
export const LLLITE_CONFIG = z.object({
  _class_name: z.literal("ControlNetLLLite"),
  /** By the name of the UNet's projection. */
  modules: z.record(
    z.string(),
    z.object({
      /** What the file calls it. */
      theirs: z.string(),
      /** Channels of what is projected, of the picture, and between layers. */
      width: WIDTH,
      embedding: WIDTH,
      hidden: WIDTH,
      /** Sides of the convolutions, which are their strides too. */
      kernels: z.array(COUNT).min(1),
    }),
  ),
});

export type LlliteConfig = z.output<typeof LLLITE_CONFIG>;

const PREFIX = "lllite_unet_";
const PROBE = `${PREFIX}input_blocks_4_1_transformer_blocks_0_attn1_to_q`;
const MODULE =
  /^lllite_unet_(input_blocks_\d+|output_blocks_\d+|middle_block)_(\d+)_transformer_blocks_(\d+)_(attn[12])_to_([qkv])$/;

export const LLLITE: ComponentFormat = {
  name: "a ControlNet-LLLite for SDXL",
  component: "controlnet",
  className: "ControlNetLLLite",
  namings: [{ probes: [`${PROBE}.conditioning1.0.weight`, `${PROBE}.up.0.weight`] }],
  config(tensors) {
    const names = new Set([...tensors.names].map((name) => name.split(".")[0]!));
    const modules = [...names].map((theirs) => {
      const [, block, i, layer, attention, part] = MODULE.exec(theirs) ?? [];
      const original = block &&
        `${block.replace(/_(?=\d)/, ".")}.${i}.transformer_blocks.${layer}.${attention}.to_${part}`;
      const [ours] = original ? toOurs(LDM_UNET, original, 1) ?? [] : [];
      if (!ours) {
        throw new SyntaxError(
          `Cannot read "${tensors.path}" as a ControlNet-LLLite: "${theirs}" is no attention of SDXL; fetch another file`,
        );
      }
      const [width, hidden] = shapeOf(tensors, `${theirs}.up.0.weight`, 2);
      const kernels: number[] = [];
      let embedding = 0;
      for (let layer = 0; layer <= LAST_CONVOLUTION; layer += 2) {
        const name = `${theirs}.conditioning1.${layer}.weight`;
        if (!tensors.find(name)) continue;
        const shape = shapeOf(tensors, name, 4);
        kernels.push(shape[2]!);
        embedding = shape[0]!;
      }
      return [ours.name, { theirs, width: width!, hidden: hidden!, embedding, kernels }] as const;
    });
    return { _class_name: LLLITE.className, modules: Object.fromEntries(modules) };
  },
};

/** What each projection has of the picture, [1, tokens, embedding], from RGB in [0, 1], in the order of the modules. */
export function lllitePictures(
  { modules }: LlliteConfig,
  root: WeightScope,
  pixels: Tensor,
): Tensor[] {
  const signed = elementwise("2 * x - 1", { x: pixels });
  return Object.values(modules).map(({ theirs, embedding, kernels }) => {
    const weights = root.scope(theirs).scope("conditioning1");
    let x = signed;
    for (const [i, side] of kernels.entries()) {
      const scope = weights.scope(2 * i);
      const isLast = i === kernels.length - 1;
      const channels = isLast ? embedding : embedding / 2;
      const shape = [channels, x.dim(-1), side, side];
      x = conv2d(x, scope.tensor(x.graph, "weight", shape, "channels-last"), {
        bias: scope.tensor(x.graph, "bias", [channels]),
        stride: [side, side],
        ...!isLast && { activation: "relu" },
      });
    }
    return x.reshape(1, -1, embedding);
  });
}

/** What a projection takes instead of `x`, [1, tokens, width], by the weight, f32 [1]. */
export function llliteInput(
  { theirs, width, hidden }: LlliteConfig["modules"][string],
  root: WeightScope,
  x: Tensor,
  picture: Tensor,
  scale: Tensor,
): Tensor {
  const weights = root.scope(theirs);
  const down = linearLayer(weights, "down.0", x, hidden, { activation: "relu" });
  const mid = linearLayer(weights, "mid.0", concat([picture, down], 2), hidden, {
    activation: "relu",
  });
  return elementwise("x + s * y", { x, s: scale, y: linearLayer(weights, "up.0", mid, width) });
}
