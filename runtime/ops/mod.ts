/** Every op that a model is written in. */
export { type Activation } from "./activations.ts";
export { attention, type AttentionOptions } from "./attention/mod.ts";
export { combine, combineTo } from "./combine/mod.ts";
export { causalConv3d, type CausalConv3dOptions, conv2d, type Conv2dOptions } from "./conv/mod.ts";
export { copyTo } from "./copy/mod.ts";
export { elementwise, type ElementwiseOptions } from "./elementwise/mod.ts";
export { exchange, type TakenTensor } from "./exchange/mod.ts";
export { gather, type GatherOptions } from "./gather/mod.ts";
export { concat, permute, slice } from "./layout/mod.ts";
export { linear, type LinearOptions } from "./linear/mod.ts";
export { type LowRank } from "./linear/low_rank.ts";
export { matmul, type MatmulOptions } from "./matmul/mod.ts";
export {
  groupNorm,
  type GroupNormOptions,
  layerNorm,
  type LayerNormOptions,
  rmsNorm,
  type RmsNormOptions,
  type Rotation,
} from "./norm/mod.ts";
export { rope, type RopeOptions, type RopeStyle } from "./rope/mod.ts";
export { resizeBilinear, warp } from "./sample/mod.ts";
export { softmax, type SoftmaxOptions } from "./softmax/mod.ts";
