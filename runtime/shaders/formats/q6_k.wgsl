// Blocks of 256 six-bit numbers in 16 parts with an int8 factor each, and an f16 one. A group is
// 420 u32s: 8 blocks of 52 (32 of low bits, 16 of high bits, 4 of factors), 4 of d.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> {
  let group = (i >> 9u) * 420u;
  let block = (i >> 6u) & 7u;
  let part = (i >> 2u) & 15u;
  let scales = bitcast<i32>(NAME_u32(group + block * 52u + 48u + (part >> 2u)));
  let scale = (scales << (24u - (part & 3u) * 8u)) >> 24u;
  return vec2<f32>(NAME_half(group + 416u, block) * f32(scale), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 9u) * 420u + ((i >> 6u) & 7u) * 52u;
  let part = (i >> 3u) & 7u;
  let low = NAME_u32(block + part * 4u + (i & 3u)) >> (i & 4u);
  let high = NAME_u32(block + 32u + ((i >> 2u) & 15u)) >> ((i & 3u) * 2u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u);
  return s.x * (vec4<f32>(NAME_bytes(q)) - vec4<f32>(32.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let group = (i >> 9u) * 105u;
  let in_group = (i >> 6u) & 7u;
  let block = group + in_group * 13u;
  let part = (i >> 3u) & 7u;
  let scales = bitcast<i32>(NAME_u32(block * 4u + 48u + (part >> 1u)) >> ((part & 1u) * 16u));
  let d = NAME_half(group * 4u + 416u, in_group);
  let s = d * vec2<f32>((vec2<i32>(scales) << vec2<u32>(24u, 16u)) >> vec2<u32>(24u));
  let q = NAME_word(block + part);
  let pairs = NAME_word(block + 8u + (part >> 1u));
  let top = select(pairs.xy, pairs.zw, (part & 1u) == 1u);
  let top_low = top.xxxx >> vec4<u32>(0u, 2u, 4u, 6u);
  let top_high = top.yyyy >> vec4<u32>(0u, 2u, 4u, 6u);
  let low = (q & vec4<u32>(0x0f0f0f0fu)) | ((top_low & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
  let high = ((q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | ((top_high & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
  return NAME_Run(low, high, s.x, s.y, -32.0 * s.x, -32.0 * s.y);
}
