// Blocks of 256 three-bit numbers in 16 parts with a 6-bit factor each, and an f16 one. A group is 220
// u32s: 8 blocks of 27 (1 of third bits for each 32 elements, 2 of the other bits for each, 3 of
// factors), 4 of d. A factor has its low four bits in a half of one of the first eight bytes, the
// others in a quarter of one of the last four.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_factor(first: u32, part: u32) -> f32 {
  let low = NAME_u32(first + ((part >> 2u) & 1u)) >> ((part & 3u) * 8u + (part >> 3u) * 4u);
  let high = NAME_u32(first + 2u) >> ((part & 3u) * 8u + (part >> 2u) * 2u);
  return f32((low & 15u) | ((high & 3u) << 4u)) - 32.0;
}

fn NAME_scale(i: u32) -> vec2<f32> {
  let group = (i >> 9u) * 220u;
  let block = (i >> 6u) & 7u;
  let factor = NAME_factor(group + block * 27u + 24u, (i >> 2u) & 15u);
  return vec2<f32>(NAME_half(group + 216u, block) * factor, 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 9u) * 220u + ((i >> 6u) & 7u) * 27u;
  let low = NAME_u32(block + 8u + ((i >> 2u) & 15u)) >> ((i & 3u) * 2u);
  let high = NAME_u32(block + ((i >> 3u) & 7u)) >> (i & 7u);
  let q = (low & 0x03030303u) | ((high & 0x01010101u) << 2u);
  return s.x * (vec4<f32>(NAME_bytes(q)) - vec4<f32>(4.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let group = (i >> 9u) * 220u;
  let in_group = (i >> 6u) & 7u;
  let block = group + in_group * 27u;
  let part = (i >> 3u) & 7u;
  let d = NAME_half(group + 216u, in_group);
  let s = d * vec2<f32>(NAME_factor(block + 24u, part * 2u), NAME_factor(block + 24u, part * 2u + 1u));
  let first = block + 8u + part * 2u;
  let third = vec4<u32>(NAME_u32(block + part)) >> vec4<u32>(0u, 1u, 2u, 3u);
  let pairs_low = (vec4<u32>(NAME_u32(first)) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
  let pairs_high = (vec4<u32>(NAME_u32(first + 1u)) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
  let low = pairs_low | ((third & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
  let high = pairs_high | ((third & vec4<u32>(0x10101010u)) >> vec4<u32>(2u));
  return NAME_Run(low, high, s.x, s.y, -4.0 * s.x, -4.0 * s.y);
}
