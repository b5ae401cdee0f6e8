/** Numbers as bytes of fp8, rounded to nearest, ties to even; beyond the largest they become the largest. */
const FLOAT = new Float32Array(1);
const BITS = new Uint32Array(FLOAT.buffer);

/** Of a format: mantissa bits, bias of its exponent, and the code of its largest number. */
interface Fp8 {
  readonly mantissa: number;
  readonly bias: number;
  readonly largest: number;
}

const E4M3: Fp8 = { mantissa: 3, bias: 7, largest: 0x7e };
const E5M2: Fp8 = { mantissa: 2, bias: 15, largest: 0x7b };

/** The largest number of `f8_e4m3`. */
export const F8_E4M3_MAX = 448;

/** One number as a byte of `f8_e4m3`. */
export function encodeF8E4M3(value: number): number {
  return encode(value, E4M3);
}

/** One number as a byte of `f8_e5m2`. */
export function encodeF8E5M2(value: number): number {
  return encode(value, E5M2);
}

function encode(value: number, { mantissa, bias, largest }: Fp8): number {
  FLOAT[0] = value;
  const bits = BITS[0]!;
  const sign = bits >>> 24 & 0x80;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7f | sign;
  if (size < 2 ** (1 - bias)) return sign | roundEven(size * 2 ** (bias - 1 + mantissa));
  const dropped = 23 - mantissa;
  const magnitude = bits & 0x7fffffff;
  const rounded = magnitude + (1 << (dropped - 1)) - 1 + ((magnitude >>> dropped) & 1);
  return sign | Math.min(largest, (rounded >>> dropped) - ((127 - bias) << mantissa));
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
