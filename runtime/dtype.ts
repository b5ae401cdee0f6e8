import type { WeightFormat } from "./quantization/block_format.ts";

/**
 * Element types of tensors. Arithmetic on the GPU is always f32 (or integer); `f16` and `bf16` are storage
 * formats, decoded by the accessor functions that `shaders/assemble.ts` writes around every buffer.
 */
export type DType = "f32" | "f16" | "bf16" | "i32" | "u32";

/** How a tensor is stored: element by element, or in the blocks of a quantised weight. */
export type StorageFormat = DType | WeightFormat;

/** Bytes of one element. */
export function bytesPerElement(dtype: DType): number {
  return dtype === "f16" || dtype === "bf16" ? 2 : 4;
}

/** True for the types whose elements are real numbers, stored one by one. */
export function isFloat(dtype: StorageFormat): dtype is "f32" | "f16" | "bf16" {
  return dtype === "f32" || dtype === "f16" || dtype === "bf16";
}

/** Rounds an f32 bit pattern to the nearest bf16 (ties to even); NaN stays NaN. */
function bf16FromF32Bits(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/**
 * Encodes numbers as the bytes of `dtype`, rounding to nearest even.
 *
 * @param values one number per element
 * @returns little-endian bytes, `values.length * bytesPerElement(dtype)` long
 */
export function encodeElements(values: ArrayLike<number>, dtype: DType): Uint8Array<ArrayBuffer> {
  switch (dtype) {
    case "f32":
      return new Uint8Array(Float32Array.from(values).buffer);
    case "f16":
      return new Uint8Array(Float16Array.from(values).buffer);
    case "i32":
      return new Uint8Array(Int32Array.from(values).buffer);
    case "u32":
      return new Uint8Array(Uint32Array.from(values).buffer);
    case "bf16": {
      const bits = new Uint32Array(Float32Array.from(values).buffer);
      const halves = new Uint16Array(bits.length);
      // Many times as fast as `from` with a function.
      for (let i = 0; i < bits.length; i++) halves[i] = bf16FromF32Bits(bits[i]!);
      return new Uint8Array(halves.buffer);
    }
  }
}

/**
 * Decodes bytes of `dtype` to numbers. The result has one entry per element; the values of f32, f16 and bf16
 * are exact, integers above 2^24 are exact too because the result is in double precision.
 */
export function decodeElements(bytes: Uint8Array, dtype: DType): Float64Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  const { buffer, byteOffset } = aligned;
  const count = Math.floor(aligned.byteLength / bytesPerElement(dtype));
  switch (dtype) {
    case "f32":
      return Float64Array.from(new Float32Array(buffer, byteOffset, count));
    case "f16":
      return Float64Array.from(new Float16Array(buffer, byteOffset, count));
    case "i32":
      return Float64Array.from(new Int32Array(buffer, byteOffset, count));
    case "u32":
      return Float64Array.from(new Uint32Array(buffer, byteOffset, count));
    case "bf16": {
      const halves = new Uint16Array(buffer, byteOffset, count);
      const bits = new Uint32Array(count);
      for (let i = 0; i < count; i++) bits[i] = halves[i]! << 16;
      return Float64Array.from(new Float32Array(bits.buffer));
    }
  }
}

/** Decodes bytes of a float type to f32, exactly. Throws `TypeError` when `dtype` is none. */
export function decodeFloats(bytes: Uint8Array, dtype: DType): Float32Array<ArrayBuffer> {
  if (!isFloat(dtype)) throw new TypeError(`Cannot decode ${dtype} as floats`);
  const size = bytesPerElement(dtype);
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  const count = Math.floor(byteLength / size);
  if (dtype === "f32") return new Float32Array(new Float32Array(buffer, byteOffset, count));
  if (dtype === "f16") return new Float32Array(new Float16Array(buffer, byteOffset, count));
  const halves = new Uint16Array(buffer, byteOffset, count);
  const bits = new Uint32Array(count);
  for (let i = 0; i < count; i++) bits[i] = halves[i]! << 16;
  return new Float32Array(bits.buffer);
}
