// Bytes with a sign, 4 bits of exponent and 3 of mantissa, and an f32 scale for the tensor in front
// of them.
//
// Exponent and mantissa become those of an f32, the bias corrected by 120. Below the smallest
// normal number the mantissa is put behind an exponent of its own and the leading one subtracted:
// GPUs may flush f32 denormals.

//#param NAME: word // of the buffer

fn NAME_scale(i: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(NAME_u32(0u)), 0.0); }

fn NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let byte = (vec4<u32>(NAME_u32(i + 4u)) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
  let bits = byte & vec4<u32>(127u);
  let is_low = bits < vec4<u32>(8u);
  let exponent = select(vec4<u32>(0x3c000000u), vec4<u32>(0x3c800000u), is_low);
  let biased = bitcast<vec4<f32>>((bits << vec4<u32>(20u)) + exponent);
  let size = biased - select(vec4<f32>(), vec4<f32>(0.015625), is_low);
  return s.x * bitcast<vec4<f32>>(bitcast<vec4<u32>>(size) | ((byte & vec4<u32>(128u)) << vec4<u32>(24u)));
}
