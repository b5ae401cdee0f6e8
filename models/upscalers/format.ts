/** Upscalers in single files: as BasicSR saves them, with or without `params` or `params_ema` before the names. */
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";

/** The compact kind: realesr-animevideov3, realesr-general-x4v3. */
export const COMPACT_UPSCALER_FORMAT: ComponentFormat = {
  name: "a compact Real-ESRGAN upscaler",
  component: "upscaler",
  className: "SRVGGNetCompact",
  namings: [{ probes: ["body.0.weight", "body.1.weight", "body.2.weight"] }],
  fits: (tensors) => tensors.find("body.1.weight")!.shape.length === 1,
  config: (tensors) => {
    // Convolutions and activations take turns; the last convolution has none after it.
    const last = countModules(tensors, "body.") - 1;
    return {
      _class_name: "SRVGGNetCompact",
      num_feat: firstOf(tensors, "body.0.weight"),
      num_block: last / 2 - 1,
      scale: Math.sqrt(firstOf(tensors, `body.${last}.weight`) / 3),
    };
  },
};

/** The large kind: RealESRGAN_x4plus, RealESRGAN_x2plus and others. */
export const RRDB_UPSCALER_FORMAT: ComponentFormat = {
  name: "a Real-ESRGAN upscaler",
  component: "upscaler",
  className: "RRDBNet",
  namings: [{ probes: ["conv_first.weight", "body.0.rdb1.conv1.weight", "conv_up2.weight"] }],
  config: (tensors) => ({
    _class_name: "RRDBNet",
    num_feat: firstOf(tensors, "conv_first.weight"),
    num_block: countModules(tensors, "body."),
    num_grow_ch: firstOf(tensors, "body.0.rdb1.conv1.weight"),
    scale: 4 / Math.sqrt(shapeOf(tensors, "conv_first.weight", 4)[1]! / 3),
  }),
};

function firstOf(tensors: TensorSource, name: string): number {
  return shapeOf(tensors, name, 4)[0]!;
}
