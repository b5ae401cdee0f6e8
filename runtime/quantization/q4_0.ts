import { type BlockFormat, bytesWgsl, halfWgsl, runWgsl } from "./block_format.ts";

const HALF = 16;

/** Blocks of 32: f16 scale d, 16 bytes q; element j is d · ((q[j] & 15) − 8), element 16 + j is d · ((q[j] >> 4) − 8). */
export const Q4_0: BlockFormat = {
  name: "q4_0",
  blockElements: 2 * HALF,
  blockBytes: 2 + HALF,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(2 + j);
      values[j] = d * ((q & 15) - 8);
      values[HALF + j] = d * ((q >> 4) - 8);
    }
  },
  // A group is 36 words: 8 blocks of 4 words, 4 words of scales.
  decoder: (name) =>
    `fn ${name}_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(${halfWgsl(name, "(i >> 6u) * 36u + 32u", "(i >> 3u) & 7u")}, 0.0);
}
fn ${name}_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 3u) & 7u;
  let q = ${name}_u32((i >> 6u) * 36u + block * 4u + (i & 3u)) >> (i & 4u);
  return s.x * (vec4<f32>(${bytesWgsl("q & 0x0f0f0f0fu")}) - vec4<f32>(8.0));
}
${
      runWgsl(
        name,
        `  let d = ${name}_scale(i).x;
  let p = ${name}_word((i >> 6u) * 9u + ((i >> 3u) & 7u));
  let p0 = p & vec4<u32>(0x0f0f0f0fu);
  let p1 = (p >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  let s = vec4<f32>(d, d, -8.0 * d, -8.0 * d);`,
      )
    }`,
};
