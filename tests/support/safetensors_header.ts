/** Headers of safetensors files, from names and shapes alone. */
import { elementCount } from "../../runtime/mod.ts";
import type { MemoryTensor } from "./memory_tensors.ts";

/**
 * What stands before the numbers of a file of BF16 tensors, as the safetensors library writes it.
 *
 * @param from what wrote it: torch's own function leaves a note
 */
export function safetensorsHeader(
  tensors: Readonly<Record<string, MemoryTensor>>,
  from: "torch" | "other",
): { readonly json: string; readonly fileSize: number } {
  const header: Record<string, unknown> = from === "torch"
    ? { __metadata__: { format: "pt" } }
    : {};
  let end = 0;
  for (const name of Object.keys(tensors).sort()) {
    const tensor = tensors[name]!;
    const shape = "shape" in tensor ? tensor.shape : tensor;
    const start = end;
    end += 2 * elementCount(shape);
    header[name] = { dtype: "BF16", shape, data_offsets: [start, end] };
  }
  const json = JSON.stringify(header);
  const length = Math.ceil(json.length / 8) * 8;
  return { json: json.padEnd(length), fileSize: 8 + length + end };
}
