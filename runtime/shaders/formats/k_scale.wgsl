// NAME_scale(i) of q4_k and q5_k, whose blocks of BLOCK_WORDS vec4<u32>s start alike: f16 d, f16
// dmin, and 6-bit factors and offsets of 8 parts in 12 bytes. The first four have theirs in the low
// six bits of a byte each; those of the others lie four bits in the last four bytes and two bits on
// top of the first eight.

//#param NAME: word // of the buffer
//#param BLOCK_WORDS: u32

fn NAME_scale(i: u32) -> vec2<f32> {
  let head = NAME_word((i >> 6u) * BLOCK_WORDS);
  let part = (i >> 3u) & 7u;
  let packed = vec2<u32>(head.y, head.z) >> vec2<u32>((part & 3u) * 8u);
  let last = head.w >> ((part & 3u) * 8u);
  let high = ((packed >> vec2<u32>(2u)) & vec2<u32>(48u)) | (vec2<u32>(last, last >> 4u) & vec2<u32>(15u));
  return unpack2x16float(head.x) * vec2<f32>(select(packed & vec2<u32>(63u), high, part >= 4u));
}
