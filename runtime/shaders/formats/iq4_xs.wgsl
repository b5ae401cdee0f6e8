// Blocks of 256 nibbles, which stand for -127 … 113, in 8 parts with a 6-bit factor each, and an f16
// one. A block is 34 u32s: d with the high bits of the factors, their low bits, 4 for each part. The
// table's entries are 128 more.

//#param NAME: word // of the buffer
//#include "formats/table.wgsl" ENTRIES="vec4<u32>(0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u)"

fn NAME_scale(i: u32) -> vec2<f32> {
  let block = (i >> 6u) * 34u;
  let part = (i >> 3u) & 7u;
  let head = NAME_u32(block);
  let low = (NAME_u32(block + 1u) >> (part * 4u)) & 15u;
  let high = (head >> (16u + part * 2u)) & 3u;
  return vec2<f32>(unpack2x16float(head).x * (f32(low | (high << 4u)) - 32.0), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let q = NAME_u32((i >> 6u) * 34u + 2u + ((i >> 3u) & 7u) * 4u + (i & 3u)) >> (i & 4u);
  return s.x * (vec4<f32>(NAME_entries(NAME_bytes(q & 0x0f0f0f0fu))) - vec4<f32>(128.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let d = NAME_scale(i).x;
  let first = (i >> 6u) * 34u + 2u + ((i >> 3u) & 7u) * 4u;
  let q = vec4<u32>(NAME_u32(first), NAME_u32(first + 1u), NAME_u32(first + 2u), NAME_u32(first + 3u));
  let low = q & vec4<u32>(0x0f0f0f0fu);
  let high = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return NAME_Run(low, high, d, d, -128.0 * d, -128.0 * d);
}
