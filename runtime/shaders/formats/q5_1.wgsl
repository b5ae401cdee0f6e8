// Blocks of 32 five-bit numbers with an f16 factor and an f16 offset. A block is 6 u32s: these, fifth
// bits, 4 of nibbles.

//#param NAME: word // of the buffer
//#include "formats/blocks.wgsl"

fn NAME_scale(i: u32) -> vec2<f32> { return unpack2x16float(NAME_u32((i >> 3u) * 6u)); }

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 3u) * 6u;
  let low = NAME_u32(block + 2u + (i & 3u)) >> (i & 4u);
  let high = NAME_u32(block + 1u) >> (i & 7u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4u);
  return s.x * vec4<f32>(NAME_bytes(q)) + vec4<f32>(s.y);
}

fn NAME_run(i: u32) -> NAME_Run {
  let s = NAME_scale(i);
  let block = (i >> 3u) * 6u;
  let q = vec4<u32>(NAME_u32(block + 2u), NAME_u32(block + 3u), NAME_u32(block + 4u), NAME_u32(block + 5u));
  let fifth = vec4<u32>(NAME_u32(block + 1u)) >> vec4<u32>(0u, 1u, 2u, 3u);
  let low = (q & vec4<u32>(0x0f0f0f0fu)) | ((fifth & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
  let high = ((q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | (fifth & vec4<u32>(0x10101010u));
  return NAME_Run(low, high, s.x, s.x, s.y, s.y);
}
