/** Weights of any size that are never anywhere but on the device: their bytes are made up as they are read. */

import {
  blockBytes,
  elementCount,
  type Shape,
  type StoredTensor,
  type TensorSource,
  type WeightFormat,
} from "../../runtime/mod.ts";

/** How matrices are stored; everything else is f32. */
export type MatrixFormat = "BF16" | "Q8_0" | "Q4_K";

/** Elements that are made up at most; larger tensors repeat them. */
const POOL_ELEMENTS = 2 ** 20;
/** Elements of the largest block. */
const BLOCK = 256;

/**
 * A source of random tensors with a standard deviation of 1 / sqrt(columns), vectors being ones. Rows that fill no whole
 * blocks are bf16.
 */
export function randomTensors(
  shapes: Readonly<Record<string, Shape>>,
  format: MatrixFormat,
): TensorSource {
  const pools = new Map<string, Uint8Array>();
  const stored = new Map(
    Object.entries(shapes).map(([name, shape]): [string, StoredTensor] => {
      const isMatrix = shape.length > 1;
      const isWhole = shape.at(-1)! % BLOCK === 0;
      const own = !isMatrix ? "F32" : isWhole ? format : "BF16";
      const byteLength = own === "F32"
        ? 4 * elementCount(shape)
        : own === "BF16"
        ? 2 * elementCount(shape)
        : blockBytes(shape, own.toLowerCase() as WeightFormat);
      return [name, { name, format: own, shape, byteLength }];
    }),
  );
  return {
    path: "random tensors",
    names: stored.keys().toArray(),
    find: (name) => stored.get(name),
    read(name, start, target) {
      const { format, shape } = stored.get(name)!;
      const key = `${format} ${format === "F32" ? 1 : shape.at(-1)}`;
      let pool = pools.get(key);
      if (!pool) pools.set(key, pool = poolOf(format, shape.at(-1)! ** -0.5));
      for (let done = 0; done < target.length;) {
        const from = (start + done) % pool.length;
        const count = Math.min(pool.length - from, target.length - done);
        target.set(pool.subarray(from, from + count), done);
        done += count;
      }
    },
  };
}

/** Bytes of a format whose values have a standard deviation. */
function poolOf(format: string, deviation: number): Uint8Array<ArrayBuffer> {
  if (format === "F32") return new Uint8Array(new Float32Array(BLOCK).fill(1).buffer);
  if (format === "BF16") {
    const values = Float32Array.from(
      { length: POOL_ELEMENTS },
      // Uniform from -√3 to √3 has a deviation of 1.
      () => (Math.random() * 2 - 1) * Math.sqrt(3) * deviation,
    );
    const halves = Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16);
    return new Uint8Array(halves.buffer);
  }
  const name = format.toLowerCase() as WeightFormat;
  const bytes = new Uint8Array(blockBytes([POOL_ELEMENTS], name));
  for (let i = 0; i < bytes.length; i += 65536) {
    crypto.getRandomValues(bytes.subarray(i, i + 65536));
  }
  // Random quants have a deviation of 74 in Q8_0, and of 258 in Q4_K with dmin = 7.5 d, which centres them.
  const isQ8 = name === "q8_0";
  const scales = isQ8 ? [deviation / 74] : [deviation / 258, 7.5 * deviation / 258];
  const header = new Uint8Array(new Float16Array(scales).buffer);
  const stride = blockBytes([isQ8 ? 32 : BLOCK], name);
  for (let i = 0; i < bytes.length; i += stride) bytes.set(header, i);
  return bytes;
}
