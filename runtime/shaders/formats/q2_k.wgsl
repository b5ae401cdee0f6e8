// Blocks of 256 two-bit numbers in 16 parts with a 4-bit factor and a 4-bit offset each, and f16 ones.
// A block is 21 u32s: 1 of f16 factors, 4 of factors and offsets, 2 for each 32 elements.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> {
  let block = (i >> 6u) * 21u;
  let part = (i >> 2u) & 15u;
  let scale = NAME_u32(block + 1u + (part >> 2u)) >> ((part & 3u) * 8u);
  return unpack2x16float(NAME_u32(block)) * vec2<f32>(vec2<u32>(scale, scale >> 4u) & vec2<u32>(15u));
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let q = NAME_u32((i >> 6u) * 21u + 5u + ((i >> 2u) & 15u)) >> ((i & 3u) * 2u);
  return s.x * vec4<f32>(NAME_bytes(q & 0x03030303u)) - vec4<f32>(s.y);
}

fn NAME_run(i: u32) -> NAME_Run {
  let block = (i >> 6u) * 21u;
  let part = (i >> 3u) & 7u;
  let scales = NAME_u32(block + 1u + (part >> 1u)) >> ((part & 1u) * 16u);
  let d = unpack2x16float(NAME_u32(block));
  let factors = d.x * vec2<f32>((vec2<u32>(scales) >> vec2<u32>(0u, 8u)) & vec2<u32>(15u));
  let offsets = d.y * vec2<f32>((vec2<u32>(scales) >> vec2<u32>(4u, 12u)) & vec2<u32>(15u));
  let first = block + 5u + part * 2u;
  let low = (vec4<u32>(NAME_u32(first)) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
  let high = (vec4<u32>(NAME_u32(first + 1u)) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
  return NAME_Run(low, high, factors.x, factors.y, -offsets.x, -offsets.y);
}
