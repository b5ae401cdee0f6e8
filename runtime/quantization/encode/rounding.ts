/** Roundings of C, in arithmetic of f32. */

/** Adding it to an f32 of at most 22 bits leaves no bits behind the point; ggml does that in f32. */
const MAGIC = 12582912;
/** Number that rounds to integers when it is added in f64. */
const WIDE_MAGIC = 1.5 * 2 ** 52;

const FLOAT = new Float32Array(1);
const BITS = new Int32Array(FLOAT.buffer);

/** The nearest integer, ties to even; of larger numbers, and of what is none, the bits that ggml takes for it. */
export function nearestInt(value: number): number {
  return value <= 4194303 && value >= -4194304 ? (value + WIDE_MAGIC) - WIDE_MAGIC : lowBits(value);
}

function lowBits(value: number): number {
  FLOAT[0] = Math.fround(value + MAGIC);
  return (BITS[0]! & 0x007fffff) - 0x00400000;
}

/** The nearest integer, ties away from zero. */
export function roundAway(value: number): number {
  return value < 0 ? -Math.floor(0.5 - value) : Math.floor(value + 0.5);
}

/** The first number of the largest magnitude from `start` on; 0 where all are zero. */
export function extremeOf(values: ArrayLike<number>, start = 0, end = values.length): number {
  let extreme = 0;
  for (let i = start; i < end; i++) {
    if (Math.abs(values[i]!) > Math.abs(extreme)) extreme = values[i]!;
  }
  return extreme;
}

export function clamp(value: number, low: number, high: number): number {
  return value < low ? low : value > high ? high : value;
}
