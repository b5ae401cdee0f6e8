/** Normalisations over rows and over groups of channels. */
export { groupNorm, type GroupNormOptions } from "./group_norm.ts";
export { layerNorm, type LayerNormOptions } from "./layer_norm.ts";
export { rmsNorm, type RmsNormOptions } from "./rms_norm.ts";
export type { Rotation } from "./row_norm.ts";
