// What the decoders of quantised blocks share. They find the device's layout behind NAME_word(i),
// the buffer's i-th vec4<u32>, and NAME_u32(i), its i-th u32.

//#param NAME: word // of the buffer
//#param TABLE: bool = false // numbers stand for entries of formats/table.wgsl, which defines NAME_unpacked

// Accesses i … i + 7 still packed, as bytes, with what is done to the first and the last four of
// them.
struct NAME_Run {
  low: vec4<u32>,
  high: vec4<u32>,
  low_factor: f32,
  high_factor: f32,
  low_offset: f32,
  high_offset: f32,
}

fn NAME_bytes(word: u32) -> vec4<u32> {
  return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
}

//#if !TABLE
// An access of a run: decoded where it is used, all at once would not fit into registers.
fn NAME_unpacked(word: u32, factor: f32, offset: f32) -> vec4<f32> {
  return fma(vec4<f32>(factor), vec4<f32>(NAME_bytes(word)), vec4<f32>(offset));
}
//#endif

// f16 number index among those from u32 number first on.
fn NAME_half(first: u32, index: u32) -> f32 {
  return unpack2x16float(NAME_u32(first + (index >> 1u)) >> ((index & 1u) * 16u)).x;
}
