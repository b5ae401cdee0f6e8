// Blocks of 32 int8 with an f16 scale. A group is 68 u32s: 8 blocks of 8, 4 of scales.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(NAME_half((i >> 6u) * 68u + 64u, (i >> 3u) & 7u), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let word = bitcast<i32>(NAME_u32((i >> 6u) * 68u + (i & 63u)));
  return s.x * vec4<f32>((vec4<i32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

fn NAME_run(i: u32) -> NAME_Run {
  let d = NAME_scale(i).x;
  let first = (i >> 6u) * 17u + ((i >> 2u) & 14u);
  let low = NAME_word(first) ^ vec4<u32>(0x80808080u);
  let high = NAME_word(first + 1u) ^ vec4<u32>(0x80808080u);
  return NAME_Run(low, high, d, d, -128.0 * d, -128.0 * d);
}
