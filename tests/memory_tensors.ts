/** Tensors in memory instead of in a file. */
import { elementCount, type Shape, type TensorSource } from "../runtime/mod.ts";

/** A tensor of F32 when only its shape is given; its bytes then count up. */
export type MemoryTensor =
  | Shape
  | {
    readonly format: string;
    readonly shape: Shape;
    readonly bytes: Uint8Array;
    readonly scale?: number;
  };

/** A source of these tensors. */
export function memoryTensors(tensors: Readonly<Record<string, MemoryTensor>>): TensorSource {
  const stored = new Map(
    Object.entries(tensors).map(([name, tensor]) => {
      if ("bytes" in tensor) {
        return [name, { name, ...tensor, byteLength: tensor.bytes.byteLength }] as const;
      }
      const byteLength = 4 * elementCount(tensor);
      return [name, { name, format: "F32", shape: tensor, byteLength }] as const;
    }),
  );
  return {
    path: "memory.safetensors",
    names: stored.keys().toArray(),
    find: (name) => stored.get(name),
    read: (name, start, target) => {
      const tensor = stored.get(name)!;
      // Those of whole models would not fit into memory.
      if ("bytes" in tensor) target.set(tensor.bytes.subarray(start, start + target.byteLength));
      else target.forEach((_, i) => target[i] = start + i);
    },
  };
}
