// Blocks of 32 five-bit numbers with an f16 scale. A group is 44 u32s: 8 blocks of 5 (fifth bits, 4
// of nibbles), 4 of scales.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(NAME_half((i >> 6u) * 44u + 40u, (i >> 3u) & 7u), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 6u) * 44u + ((i >> 3u) & 7u) * 5u;
  let low = NAME_u32(block + 1u + (i & 3u)) >> (i & 4u);
  let high = NAME_u32(block) >> (i & 7u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4u);
  return s.x * (vec4<f32>(NAME_bytes(q)) - vec4<f32>(16.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let d = NAME_scale(i).x;
  let block = (i >> 6u) * 44u + ((i >> 3u) & 7u) * 5u;
  let q = vec4<u32>(NAME_u32(block + 1u), NAME_u32(block + 2u), NAME_u32(block + 3u), NAME_u32(block + 4u));
  let fifth = vec4<u32>(NAME_u32(block)) >> vec4<u32>(0u, 1u, 2u, 3u);
  let low = (q & vec4<u32>(0x0f0f0f0fu)) | ((fifth & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
  let high = ((q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | (fifth & vec4<u32>(0x10101010u));
  return NAME_Run(low, high, d, d, -16.0 * d, -16.0 * d);
}
