// Bytes with a sign, 5 bits of exponent and 2 of mantissa, the upper halves of f16 numbers, and an f32
// scale for the tensor in front of them.

//#param NAME: word // of the buffer

fn NAME_scale(i: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(NAME_u32(0u)), 0.0); }

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let word = NAME_u32(i + 4u);
  let low = ((word & 0xffu) << 8u) | ((word & 0xff00u) << 16u);
  let high = ((word >> 8u) & 0xff00u) | (word & 0xff000000u);
  return s.x * vec4<f32>(unpack2x16float(low), unpack2x16float(high));
}
