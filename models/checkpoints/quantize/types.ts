/** The types that `denoise quantize` knows; imports little, as the command line reads it at every start. */
import type { WeightFormat } from "../../../runtime/quantization/block_format.ts";
import { BLOCK_FORMATS, isWeightFormat } from "../../../runtime/quantization/formats.ts";

const TYPE_NAMES: ReadonlyMap<string, WeightFormat | "f16" | "bf16"> = new Map([
  ...(Object.keys(BLOCK_FORMATS) as WeightFormat[])
    .filter((format) => !BLOCK_FORMATS[format].byteValues)
    .map((format) => [format, format] as const),
  ["fp8", "f8_e4m3"],
  ["fp8_e5m2", "f8_e5m2"],
  ["f16", "f16"],
  ["bf16", "bf16"],
]);

export const QUANTIZE_TYPES: readonly string[] = [...TYPE_NAMES.keys()];

export type QuantizedType = WeightFormat | "f16" | "bf16";

export interface TypeRule {
  /** Tested on the whole name. */
  readonly pattern: RegExp;
  readonly type: QuantizedType;
}

export type Container = "gguf" | "safetensors";

export function quantizedType(name: string): QuantizedType | undefined {
  return TYPE_NAMES.get(name.toLowerCase().replace(/^f8/, "fp8"));
}

export function containersOf(type: QuantizedType): readonly Container[] {
  if (!isWeightFormat(type)) return ["gguf", "safetensors"];
  return BLOCK_FORMATS[type].byteValues ? ["safetensors"] : ["gguf"];
}
