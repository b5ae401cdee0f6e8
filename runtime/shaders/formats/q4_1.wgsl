// Blocks of 32 nibbles with an f16 factor and an f16 offset. A block is 5 u32s: these, 4 of nibbles.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> { return unpack2x16float(NAME_u32((i >> 3u) * 5u)); }

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let q = NAME_u32((i >> 3u) * 5u + 1u + (i & 3u)) >> (i & 4u);
  return s.x * vec4<f32>(NAME_bytes(q & 0x0f0f0f0fu)) + vec4<f32>(s.y);
}

fn NAME_run(i: u32) -> NAME_Run {
  let s = NAME_scale(i);
  let first = (i >> 3u) * 5u + 1u;
  let q = vec4<u32>(NAME_u32(first), NAME_u32(first + 1u), NAME_u32(first + 2u), NAME_u32(first + 3u));
  let low = q & vec4<u32>(0x0f0f0f0fu);
  let high = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return NAME_Run(low, high, s.x, s.x, s.y, s.y);
}
