import { type BlockFormat, bytesWgsl } from "./block_format.ts";

/** Elements that are read together. */
const ELEMENTS = 4;

/**
 * One element's value: sign, 4 bits of exponent with bias 7, 3 bits of mantissa; no infinities, and NaN where all
 * seven bits are set.
 */
export function decodeF8(byte: number): number {
  const sign = byte & 0x80 ? -1 : 1;
  const exponent = (byte >> 3) & 15;
  const mantissa = byte & 7;
  if ((byte & 0x7f) === 0x7f) return NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -9 : sign * (8 + mantissa) * 2 ** (exponent - 10);
}

/** Bytes of {@linkcode decodeF8} and a scale for the tensor, 1 unless the file has one. */
export const F8_E4M3: BlockFormat = {
  name: "f8_e4m3",
  blockElements: ELEMENTS,
  blockBytes: ELEMENTS,
  groupBlocks: 4,
  headerBytes: 16,
  nanBytes: [0x7f, 0xff],
  scaleRun: "row",
  decodeBlock(block, values) {
    for (let j = 0; j < ELEMENTS; j++) values[j] = decodeF8(block.getUint8(j));
  },
  // Exponent and mantissa become those of an f32, the bias corrected by 120. Below the smallest normal number the
  // mantissa is put behind an exponent of its own and the leading one subtracted: GPUs may flush f32 denormals.
  decoder: (name) =>
    `fn ${name}_scale(i: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(${name}_u32(0u)), 0.0); }
fn ${name}_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let byte = ${bytesWgsl(`${name}_u32(i + 4u)`)};
  let bits = byte & vec4<u32>(127u);
  let isLow = bits < vec4<u32>(8u);
  let biased = bitcast<vec4<f32>>((bits << vec4<u32>(20u)) + select(vec4<u32>(0x3c000000u), vec4<u32>(0x3c800000u), isLow));
  let size = biased - select(vec4<f32>(), vec4<f32>(0.015625), isLow);
  return s.x * bitcast<vec4<f32>>(bitcast<vec4<u32>>(size) | ((byte & vec4<u32>(128u)) << vec4<u32>(24u)));
}`,
};
