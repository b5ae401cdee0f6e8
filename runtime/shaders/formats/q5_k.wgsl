// Blocks of 256 five-bit numbers in 8 parts with a factor and an offset each. A block is 44 u32s: 4
// of scales, 1 of fifth bits for each part, 4 of nibbles for each part.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"
//#include "formats/k_scale.wgsl" BLOCK_WORDS=11

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 6u) * 44u;
  let part = (i >> 3u) & 7u;
  let low = NAME_u32(block + 12u + part * 4u + (i & 3u)) >> (i & 4u);
  let high = NAME_u32(block + 4u + part) >> (i & 7u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4u);
  return s.x * vec4<f32>(NAME_bytes(q)) - vec4<f32>(s.y);
}

fn NAME_run(i: u32) -> NAME_Run {
  let s = NAME_scale(i);
  let block = (i >> 6u) * 11u;
  let part = (i >> 3u) & 7u;
  let q = NAME_word(block + 3u + part);
  let fifth = vec4<u32>(NAME_u32(block * 4u + 4u + part)) >> vec4<u32>(0u, 1u, 2u, 3u);
  let low = (q & vec4<u32>(0x0f0f0f0fu)) | ((fifth & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
  let high = ((q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | (fifth & vec4<u32>(0x10101010u));
  return NAME_Run(low, high, s.x, s.x, -s.y, -s.y);
}
