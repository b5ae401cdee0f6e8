/** Numbers as bytes of fp8, rounded to nearest, ties to even; beyond the largest they become the largest. */

/** A format: bits of its mantissa, the bias of its exponent, and the code of its largest number. */
interface Fp8 {
  readonly mantissa: number;
  readonly bias: number;
  readonly largest: number;
}

const FORMATS: Readonly<Record<"f8_e4m3" | "f8_e5m2", Fp8>> = {
  f8_e4m3: { mantissa: 3, bias: 7, largest: 0x7e },
  f8_e5m2: { mantissa: 2, bias: 15, largest: 0x7b },
};

export const F8_E4M3_MAX = 448;
export const F8_E5M2_MAX = 57344;

/** Numbers divided by `scale`, as bytes. */
export function encodeF8(
  values: Float32Array,
  format: "f8_e4m3" | "f8_e5m2",
  scale: number,
): Uint8Array<ArrayBuffer> {
  const { mantissa, bias, largest } = FORMATS[format];
  const scaled = values.map((value) => value / scale);
  const bits = new Uint32Array(scaled.buffer);
  const dropped = 23 - mantissa;
  const half = (1 << (dropped - 1)) - 1;
  const leastNormal = (128 - bias) << 23;
  const leastSteps = 2 ** (bias - 1 + mantissa);
  const bytes = new Uint8Array(values.length);
  for (let i = 0; i < bytes.length; i++) {
    const word = bits[i]!;
    const size = word & 0x7fffffff;
    const sign = (word >>> 24) & 0x80;
    if (size < leastNormal) bytes[i] = sign | roundEven(Math.abs(scaled[i]!) * leastSteps);
    else if (size > 0x7f800000) bytes[i] = sign | 0x7f;
    else {
      const code = ((size + half + ((size >>> dropped) & 1)) >>> dropped) -
        ((127 - bias) << mantissa);
      bytes[i] = sign | Math.min(largest, code);
    }
  }
  return bytes;
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
