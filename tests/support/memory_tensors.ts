/** Tensors in memory instead of in a file. */
import {
  elementCount,
  type Shape,
  type StoredTensor,
  type TensorSource,
} from "../../runtime/mod.ts";

/** A tensor of F32 when only its shape is given; its bytes then count up. */
export type MemoryTensor =
  | Shape
  | (Omit<StoredTensor, "name" | "byteLength"> & {
    readonly bytes: Uint8Array;
  });

/** A source of these tensors. */
export function memoryTensors(tensors: Readonly<Record<string, MemoryTensor>>): TensorSource {
  const stored = new Map<string, StoredTensor & { readonly bytes?: Uint8Array }>();
  for (const [name, tensor] of Object.entries(tensors)) {
    const isWhole = "bytes" in tensor;
    const byteLength = isWhole ? tensor.bytes.byteLength : 4 * elementCount(tensor);
    stored.set(
      name,
      isWhole
        ? { name, byteLength, ...tensor }
        : { name, byteLength, format: "F32", shape: tensor },
    );
  }
  return {
    path: "memory.safetensors",
    names: stored.keys().toArray(),
    find: (name) => stored.get(name),
    read: (name, start, target) => {
      const { bytes } = stored.get(name)!;
      // Those of whole models would not fit into memory.
      if (bytes) target.set(bytes.subarray(start, start + target.byteLength));
      else target.forEach((_, i) => target[i] = start + i);
    },
  };
}
