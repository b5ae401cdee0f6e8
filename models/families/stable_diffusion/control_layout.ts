/** ControlNets and adapters in single files: their names, and configurations from shapes. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import type { LowRankForm } from "../../checkpoints/low_rank_source.ts";
import { type ComponentFormat, countModules, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, renamed } from "../../layouts.ts";
import { downConfig, LDM_DOWN } from "./unet_layout.ts";

/** Convolutions of the picture. */
const HINT_LAYERS = 8;

/** Source: `convert_controlnet_checkpoint` of diffusers. */
const LDM_CONTROLNET: Layout = {
  name: "original ControlNet",
  prefixes: ["control_model."],
  entries: [
    ...LDM_DOWN,
    ...Array.from({ length: HINT_LAYERS }, (_, i) => {
      const name = i === 0 ? "conv_in" : i === HINT_LAYERS - 1 ? "conv_out" : `blocks.${i - 1}`;
      return renamed(`input_hint_block.${2 * i}`, `controlnet_cond_embedding.${name}`);
    }),
    renamed("zero_convs.*.0", "controlnet_down_blocks.*"),
    renamed("middle_block_out.0", "controlnet_mid_block"),
  ],
};

export const CONTROLNET: ComponentFormat = {
  name: "a ControlNet for Stable Diffusion",
  component: "controlnet",
  className: "ControlNetModel",
  namings: [
    { probes: ["input_hint_block.0.weight", "zero_convs.0.0.weight"], layout: LDM_CONTROLNET },
    { probes: ["controlnet_cond_embedding.conv_in.weight", "controlnet_down_blocks.0.weight"] },
  ],
  config(tensors) {
    const hint = "controlnet_cond_embedding";
    const tasks = tensors.find("task_embedding");
    const isLowRank = tensors.find("lora_controlnet") !== undefined;
    return {
      _class_name: CONTROLNET.className,
      ...isLowRank ? { is_low_rank: true } : ownSizes(tensors),
      conditioning_embedding_out_channels: [
        shapeOf(tensors, `${hint}.conv_in.weight`, 4)[0]!,
        ...Array.from(
          { length: countModules(tensors, `${hint}.blocks.`) / 2 },
          (_, i) => shapeOf(tensors, `${hint}.blocks.${2 * i + 1}.weight`, 4)[0]!,
        ),
      ],
      // What files do not say otherwise; other programs look at the name, too.
      global_pool_conditions: /shuffle/i.test(basename(tensors.path)),
      ...(tasks && { num_control_type: tasks.shape[0]! }),
      is_difference: tensors.find("difference") !== undefined,
    };
  },
};

function ownSizes(tensors: TensorSource): JsonObject {
  const { config, depths } = downConfig(tensors);
  return { ...config, transformer_layers_per_block: depths.map(([first]) => first!) };
}

/** Control-LoRAs of Stability AI: a ControlNet as low-rank changes of the UNet beside it. */
export const CONTROL_LORA: LowRankForm = {
  base: "transformer",
  isFor: ({ is_low_rank }) => is_low_rank === true,
  config: (own, { up_block_types: _, out_channels: __, _class_name: ___, ...base }) => ({
    ...base,
    ...own,
  }),
  layout: LDM_CONTROLNET,
  has: (name) => !/^(?:up_blocks|conv_norm_out|conv_out)\./.test(name),
};

/** Blocks of an adapter, and layers of each. */
const [ADAPTER_BLOCKS, ADAPTER_LAYERS] = [5, 2];

/** As TencentARC names them, whose blocks lie in one list. */
const TENCENT_ADAPTER: Layout = {
  name: "original T2I-Adapter",
  prefixes: ["adapter."],
  entries: [
    renamed("conv_in", "adapter.conv_in"),
    ...Array.from({ length: ADAPTER_BLOCKS }, (_, i) => [
      renamed(`body.${ADAPTER_LAYERS * i}.in_conv`, `adapter.body.${i}.in_conv`),
      ...Array.from(
        { length: ADAPTER_LAYERS },
        (_, j) =>
          ["block1", "block2"].map((part) =>
            renamed(
              `body.${ADAPTER_LAYERS * i + j}.${part}`,
              `adapter.body.${i}.resnets.${j}.${part}`,
            )
          ),
      ).flat(),
    ]).flat(),
  ],
};

const TENCENT_LIGHT_ADAPTER: Layout = {
  name: "original light T2I-Adapter",
  prefixes: ["adapter."],
  entries: [
    renamed("body.*.in_conv", "adapter.body.*.in_conv"),
    renamed("body.*.out_conv", "adapter.body.*.out_conv"),
    renamed("body.*.body.*.block1", "adapter.body.*.resnets.*.block1"),
    renamed("body.*.body.*.block2", "adapter.body.*.resnets.*.block2"),
  ],
};

export const ADAPTER: ComponentFormat = {
  name: "a T2I-Adapter for Stable Diffusion",
  component: "controlnet",
  className: "T2IAdapter",
  namings: [
    {
      probes: ["adapter.body.0.resnets.0.block1.weight", "adapter.body.0.resnets.0.block2.weight"],
    },
    { probes: ["conv_in.weight", "body.0.block1.weight"], layout: TENCENT_ADAPTER },
    {
      probes: ["body.0.in_conv.weight", "body.0.body.0.block1.weight"],
      layout: TENCENT_LIGHT_ADAPTER,
    },
  ],
  config(tensors) {
    const blocks = countModules(tensors, "adapter.body.");
    const isLight = tensors.find("adapter.body.0.out_conv.weight") !== undefined;
    const first = isLight ? "adapter.body.0.in_conv.weight" : "adapter.conv_in.weight";
    const seen = shapeOf(tensors, first, isLight ? 2 : 4)[1]!;
    // A patch has 8 x 8 or 16 x 16 pixels, of one channel or three.
    const side = Number.isInteger(Math.sqrt(seen)) ? Math.sqrt(seen) : Math.sqrt(seen / 3);
    const width = (i: number) =>
      isLight
        ? shapeOf(tensors, `adapter.body.${i}.out_conv.weight`, 2)[0]!
        : shapeOf(tensors, `adapter.body.${i}.resnets.0.block1.weight`, 4)[0]!;
    return {
      _class_name: ADAPTER.className,
      in_channels: seen / side ** 2,
      channels: Array.from({ length: blocks }, (_, i) => width(i)),
      num_res_blocks: countModules(tensors, "adapter.body.0.resnets."),
      downscale_factor: side,
      adapter_type: isLight ? "light_adapter" : side > 8 ? "full_adapter_xl" : "full_adapter",
    };
  },
};
