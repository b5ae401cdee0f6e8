/** Tensors whose elements do not lie one after the other, as files of PyTorch may have them: a transposed matrix. */
import { elementCount, type Shape, stridesOf } from "../shape.ts";

/** How elements lie in a file, counted in elements. */
export interface Strided {
  readonly shape: Shape;
  readonly strides: readonly number[];
  readonly byteLength: number;
}

/** Whether elements lie one after the other, the last axis first. */
export function isDense({ shape, strides }: Pick<Strided, "shape" | "strides">): boolean {
  const dense = stridesOf(shape);
  return shape.includes(0) || shape.every((size, i) => size <= 1 || strides[i] === dense[i]);
}

/** Bytes from the first element to the end of the last one. */
export function extentOf({ shape, strides, byteLength }: Strided): number {
  const last = shape.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, 0);
  return (last + 1) * byteLength / elementCount(shape);
}

/** Bytes of a tensor as if it were dense, from `start` on; `readAt` reads what lies in the file. */
export function readStrided(
  tensor: Strided,
  start: number,
  target: Uint8Array,
  readAt: (start: number, bytes: Uint8Array) => void,
): void {
  const { shape, strides, byteLength } = tensor;
  const stored = new Uint8Array(extentOf(tensor));
  readAt(0, stored);
  const size = byteLength / elementCount(shape);
  const dense = stridesOf(shape);
  for (let i = 0; i < target.length;) {
    const place = start + i;
    const [element, byte] = [Math.floor(place / size), place % size];
    let [rest, from] = [element, 0];
    for (let axis = 0; axis < shape.length; axis++) {
      const index = Math.floor(rest / dense[axis]!);
      rest -= index * dense[axis]!;
      from += index * strides[axis]!;
    }
    const count = Math.min(size - byte, target.length - i);
    const begin = from * size + byte;
    for (let k = 0; k < count; k++) target[i + k] = stored[begin + k]!;
    i += count;
  }
}
