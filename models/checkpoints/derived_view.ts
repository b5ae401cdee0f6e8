/** Tensors of a file that are computed from others, or hidden, while the rest stays as it is. */
import {
  blockFormatOf,
  dequantize,
  elementCount,
  FORMAT_BITS,
  type Shape,
  type StoredTensor,
  type TensorSource,
} from "../../runtime/mod.ts";

/** The tensors without those whose names `isHidden` tells. */
export function without(
  source: TensorSource,
  isHidden: (name: string) => boolean,
): TensorSource {
  return {
    path: source.path,
    names: [...source.names].filter((name) => !isHidden(name)),
    find: (name) => (isHidden(name) ? undefined : source.find(name)),
    read: (name, start, target) => source.read(name, start, target),
  };
}

/** The tensors with other shapes for the same elements, where `shapeOf` gives one. */
export function reshaped(
  source: TensorSource,
  shapeOf: (name: string, shape: Shape) => Shape | undefined,
): TensorSource {
  return {
    path: source.path,
    get names() {
      return source.names;
    },
    find: (name) => {
      const stored = source.find(name);
      const shape = stored && shapeOf(name, stored.shape);
      return shape ? { ...stored, shape } : stored;
    },
    read: (name, start, target) => source.read(name, start, target),
  };
}

/** The matrix `theirs`, [rows, columns], as `ours`, [columns, rows]; blocks, which lie along rows, become f32. */
export function transposed(source: TensorSource, theirs: string, ours: string): TensorSource {
  const stored = source.find(theirs);
  if (!stored) return source;
  const [rows, columns] = stored.shape as [number, number];
  const bits = FORMAT_BITS.get(stored.format);
  const isBlocks = blockFormatOf(stored.format) !== undefined;
  if (stored.shape.length !== 2 || (!isBlocks && (bits === undefined || bits % 8 !== 0))) {
    throw new SyntaxError(
      `Cannot read "${source.path}": tensor "${theirs}" of shape [${stored.shape}] and type ${stored.format} ` +
        "cannot be transposed; fetch the file in f16",
    );
  }
  const size = isBlocks ? 4 : bits! / 8;
  const tensor: StoredTensor = {
    ...stored,
    ...(isBlocks && { format: "F32" }),
    name: ours,
    shape: [columns, rows],
    byteLength: size * elementCount(stored.shape),
  };
  const hidden = without(source, (name) => name === theirs);
  return {
    path: source.path,
    names: [...hidden.names, ours],
    find: (name) => (name === ours ? tensor : hidden.find(name)),
    read(name, start, target) {
      if (name !== ours) return hidden.read(name, start, target);
      const bytes = readWhole(source, stored);
      for (let i = 0; i < target.length; i++) {
        const place = start + i;
        const [element, byte] = [Math.floor(place / size), place % size];
        const from = element % rows * columns + Math.floor(element / rows);
        target[i] = bytes[from * size + byte]!;
      }
    },
  };
}

/** The bytes of a tensor, of blocks those of the numbers that they stand for. */
function readWhole(source: TensorSource, { name, format, byteLength }: StoredTensor): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  source.read(name, 0, bytes);
  const blocks = blockFormatOf(format);
  return blocks ? new Uint8Array(dequantize(bytes, blocks).buffer) : bytes;
}
