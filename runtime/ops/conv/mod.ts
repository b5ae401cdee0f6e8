/** Convolutions over images and over videos, channels last. */
export { causalConv3d, type CausalConv3dOptions } from "./causal_conv3d.ts";
export { conv2d, type Conv2dOptions } from "./conv2d.ts";
