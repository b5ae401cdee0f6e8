/** RIFE's networks in single files, with or without `module` before the names. */
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";

/** RIFE 4.15 and newer: 4.22, 4.22.lite, 4.25 and others. */
export const RIFE_FORMAT: ComponentFormat = {
  name: "a frame interpolator (RIFE 4.15 or newer)",
  component: "frame_interpolator",
  className: "IFNet",
  namings: [{
    probes: ["block0.conv0.0.0.weight", "block1.lastconv.0.weight", "encode.cnn3.weight"],
  }],
  config: (tensors) => {
    const blocks = countModules(tensors, "block");
    const head = shapeOf(tensors, "encode.cnn3.weight", 4)[1]!;
    // Two frames and their heads, the time, mask and flow; the rest is what the block before tells.
    const known = 6 + 2 * head + 1 + 1 + 4;
    return {
      _class_name: "IFNet",
      block_channels: Array.from(
        { length: blocks },
        (_, i) => shapeOf(tensors, `block${i}.conv0.1.0.weight`, 4)[0]!,
      ),
      head_channels: head,
      feature_channels: shapeOf(tensors, "block1.conv0.0.0.weight", 4)[1]! - known,
    };
  },
};
