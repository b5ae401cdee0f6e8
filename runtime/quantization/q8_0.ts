import { type BlockFormat, halfWgsl, runWgsl } from "./block_format.ts";

const ELEMENTS = 32;

/** WGSL of the four signed bytes of `word`, an expression, as `vec4<f32>`. */
function signedBytesWgsl(word: string): string {
  return `vec4<f32>((vec4<i32>(bitcast<i32>(${word})) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))`;
}

/** Blocks of 32: f16 scale d, int8 q[32]; element j is d · q[j]. */
export const Q8_0: BlockFormat = {
  name: "q8_0",
  blockElements: ELEMENTS,
  blockBytes: 2 + ELEMENTS,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  isInt8: true,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < ELEMENTS; j++) values[j] = d * block.getInt8(2 + j);
  },
  // A group is 68 words: 8 blocks of 8 words, 4 words of scales.
  decoder: (name) =>
    `fn ${name}_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(${halfWgsl(name, "(i >> 6u) * 68u + 64u", "(i >> 3u) & 7u")}, 0.0);
}
fn ${name}_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  return s.x * ${signedBytesWgsl(`${name}_u32((i >> 6u) * 68u + (i & 63u))`)};
}
fn ${name}_int8(i: u32) -> vec4<u32> { return ${name}_word((i >> 4u) * 17u + (i & 15u)); }
${
      runWgsl(
        name,
        `  let d = ${name}_scale(i).x;
  let first = (i >> 6u) * 17u + ((i >> 2u) & 14u);
  let p0 = ${name}_word(first) ^ vec4<u32>(0x80808080u);
  let p1 = ${name}_word(first + 1u) ^ vec4<u32>(0x80808080u);
  let s = vec4<f32>(d, d, -128.0 * d, -128.0 * d);`,
      )
    }`,
};
