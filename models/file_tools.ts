/** What can be done with files of models without running them. */
import {
  quantizeCheckpoint,
  type QuantizeOptions,
  type QuantizeResult,
} from "./checkpoints/quantize/mod.ts";
import { type Inspection, inspectPath } from "./inspect/mod.ts";
import { loadFamilies, OPTIONAL_FORMATS } from "./mod.ts";

export type { FormatShare, InspectedComponent, InspectedLora, Inspection } from "./inspect/mod.ts";

/** Writes a copy of weights, a file or a component's folder, in fewer bits; `output` ends with `.gguf` or `.safetensors`. */
export async function quantize(
  path: string,
  output: string,
  options: QuantizeOptions,
): Promise<QuantizeResult> {
  const families = await loadFamilies();
  const formats = [...families.flatMap(({ files }) => files.formats), ...OPTIONAL_FORMATS];
  return await quantizeCheckpoint(path, output, { ...options, formats });
}

/** Says what a file or folder is: a model, a part of one, or a LoRA, by headers and configurations. */
export async function inspect(path: string): Promise<Inspection> {
  const families = (await loadFamilies()).map(({ lora, classNames, files }) => ({
    name: lora.transformer.family,
    classNames,
    files,
  }));
  return await inspectPath(path, families, OPTIONAL_FORMATS);
}
