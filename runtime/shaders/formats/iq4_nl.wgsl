// Blocks of 32 nibbles, which stand for -127 … 113, with an f16 scale. A group is 36 u32s: 8 blocks
// of 4, 4 of scales. The table's entries are 128 more.

//#param NAME: word // of the buffer
//#include "formats/table.wgsl" ENTRIES="vec4<u32>(0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u)"

fn NAME_scale(i: u32) -> vec2<f32> {
  return vec2<f32>(NAME_half((i >> 6u) * 36u + 32u, (i >> 3u) & 7u), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 3u) & 7u;
  let q = NAME_u32((i >> 6u) * 36u + block * 4u + (i & 3u)) >> (i & 4u);
  return s.x * (vec4<f32>(NAME_entries(NAME_bytes(q & 0x0f0f0f0fu))) - vec4<f32>(128.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let d = NAME_scale(i).x;
  let q = NAME_word((i >> 6u) * 9u + ((i >> 3u) & 7u));
  let low = q & vec4<u32>(0x0f0f0f0fu);
  let high = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return NAME_Run(low, high, d, d, -128.0 * d, -128.0 * d);
}
