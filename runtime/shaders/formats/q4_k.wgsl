// Blocks of 256 nibbles in 8 parts with a factor and an offset each. A block is 36 u32s: 4 of
// scales, 4 for each part.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"
//#include "formats/k_scale.wgsl" BLOCK_WORDS=9

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let q = NAME_u32((i >> 6u) * 36u + 4u + ((i >> 3u) & 7u) * 4u + (i & 3u)) >> (i & 4u);
  return s.x * vec4<f32>(NAME_bytes(q & 0x0f0f0f0fu)) - vec4<f32>(s.y);
}

fn NAME_run(i: u32) -> NAME_Run {
  let s = NAME_scale(i);
  let q = NAME_word((i >> 6u) * 9u + 1u + ((i >> 3u) & 7u));
  let low = q & vec4<u32>(0x0f0f0f0fu);
  let high = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return NAME_Run(low, high, s.x, s.x, -s.y, -s.y);
}
