import { type BlockFormat, bytesWgsl, halfWgsl, runWgsl } from "./block_format.ts";

const HALF = 16;
/** Where the nibbles begin. */
const QUANTS = 6;

/** Brings together the fifth bits of one access: bit i of byte c becomes that of element 4i + c. */
function shuffle(words: Uint32Array, at: number): void {
  const fifths = words[at]!;
  let bits = 0;
  for (let element = 0; element < 2 * HALF; element++) {
    bits |= ((fifths >>> element) & 1) << (8 * (element & 3) + (element >> 2));
  }
  words[at] = bits;
}

/**
 * Blocks of 32: f16 scale d, fifth bits in a `u32` h, 16 bytes q; element j is d · (((q[j] & 15) | 16 · bit j of h) − 16),
 * element 16 + j likewise with q[j] >> 4 and bit 16 + j.
 */
export const Q5_0: BlockFormat = {
  name: "q5_0",
  blockElements: 2 * HALF,
  blockBytes: QUANTS + HALF,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  shuffle,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const fifths = block.getUint32(2, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(QUANTS + j);
      values[j] = d * (((q & 15) | (((fifths >>> j) & 1) << 4)) - 16);
      values[HALF + j] = d * (((q >> 4) | (((fifths >>> (HALF + j)) & 1) << 4)) - 16);
    }
  },
  // A group is 44 words: 8 blocks of 5 words (fifth bits, 4 of nibbles), 4 words of scales.
  decoder: (name) =>
    `fn ${name}_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(${halfWgsl(name, "(i >> 6u) * 44u + 40u", "(i >> 3u) & 7u")}, 0.0);
}
fn ${name}_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 6u) * 44u + ((i >> 3u) & 7u) * 5u;
  let low = ${name}_u32(block + 1u + (i & 3u)) >> (i & 4u);
  let high = ${name}_u32(block) >> (i & 7u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4u);
  return s.x * (vec4<f32>(${bytesWgsl("q")}) - vec4<f32>(16.0));
}
${
      runWgsl(
        name,
        `  let d = ${name}_scale(i).x;
  let block = (i >> 6u) * 44u + ((i >> 3u) & 7u) * 5u;
  let low = vec4<u32>(${[1, 2, 3, 4].map((word) => `${name}_u32(block + ${word}u)`).join(", ")});
  let high = vec4<u32>(${name}_u32(block)) >> vec4<u32>(0u, 1u, 2u, 3u);
  let p0 = (low & vec4<u32>(0x0f0f0f0fu)) | ((high & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
  let p1 = ((low >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | (high & vec4<u32>(0x10101010u));
  let s = vec4<f32>(d, d, -16.0 * d, -16.0 * d);`,
      )
    }`,
};
