// Blocks of 32 nibbles, which stand for floats of four bits, with an exponent of 8 bits. A group is
// 68 u32s: 16 blocks of 4, 4 of exponents. The table's entries are the floats' doubles and 12 more;
// an exponent of 0 or 1 gives zeros, as GPUs may flush f32 denormals.

//#param NAME: word // of the buffer
//#include "formats/table.wgsl" ENTRIES="vec4<u32>(0x0f0e0d0cu, 0x18141210u, 0x090a0b0cu, 0x00040608u)"

fn NAME_scale(i: u32) -> vec2<f32> {
  let block = (i >> 3u) & 15u;
  let e = (NAME_u32((i >> 7u) * 68u + 64u + (block >> 2u)) >> ((block & 3u) * 8u)) & 255u;
  return vec2<f32>(bitcast<f32>((max(e, 1u) - 1u) << 23u), 0.0);
}

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 3u) & 15u;
  let q = NAME_u32((i >> 7u) * 68u + block * 4u + (i & 3u)) >> (i & 4u);
  return s.x * (vec4<f32>(NAME_entries(NAME_bytes(q & 0x0f0f0f0fu))) - vec4<f32>(12.0));
}

fn NAME_run(i: u32) -> NAME_Run {
  let d = NAME_scale(i).x;
  let q = NAME_word((i >> 7u) * 17u + ((i >> 3u) & 15u));
  let low = q & vec4<u32>(0x0f0f0f0fu);
  let high = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return NAME_Run(low, high, d, d, -12.0 * d, -12.0 * d);
}
