import { decodeElements, type DType, encodeElements } from "../dtype.ts";
import { elementCount, type Shape } from "../shape.ts";

/** A dense array in double precision: what the CPU references compute on. */
export interface NdArray {
  readonly shape: Shape;
  readonly data: Float64Array;
}

/** Makes an array, of zeros unless `data` is given. */
export function ndarray(shape: Shape, data?: Float64Array): NdArray {
  const count = elementCount(shape);
  if (data && data.length !== count) {
    throw new RangeError(
      `Cannot make an array of shape [${shape}]: ${data.length} values are given`,
    );
  }
  return { shape: [...shape], data: data ?? new Float64Array(count) };
}

/** An array whose values are made when they are first asked for: case tables have many that nobody runs. */
export function lazyArray(shape: Shape, make: () => Float64Array): NdArray {
  let made: Float64Array | undefined;
  return {
    shape: [...shape],
    get data() {
      return made ??= make();
    },
  };
}

export function roundTo(array: NdArray, dtype: DType): NdArray {
  return { shape: array.shape, data: decodeElements(encodeElements(array.data, dtype), dtype) };
}

/** Rounds every value to f16 as kernels round factors: what f16 does not hold becomes the largest that it does. */
export function roundToHalf(array: NdArray): NdArray {
  return roundTo(clampToHalf(array), "f16");
}

/** Numbers beyond what f16 holds as the largest that it does, as kernels store them. */
export function clampToHalf({ shape, data }: NdArray): NdArray {
  return { shape, data: data.map((value) => Math.max(-65504, Math.min(65504, value))) };
}

/** Deterministic standard-normal values (xorshift and Box–Muller): the same test data on every machine. */
export function randomNormal(shape: Shape, seed: number, scale = 1): NdArray {
  return lazyArray(shape, () => normalValues(elementCount(shape), seed, scale));
}

function normalValues(count: number, seed: number, scale: number): Float64Array {
  let state = (Math.imul(seed + 1, 0x9e3779b1) ^ 0x85ebca6b) >>> 0 || 1;
  const uniform = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return (state + 0.5) / 4294967296;
  };
  return Float64Array.from(
    { length: count },
    () => scale * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}

/** Integers in `[0, bound)`, deterministic. */
export function randomIntegers(shape: Shape, seed: number, bound: number): NdArray {
  const { data } = randomNormal(shape, seed, 1000);
  return { shape: [...shape], data: data.map((value) => Math.floor(Math.abs(value) * 97) % bound) };
}
