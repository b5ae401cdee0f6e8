// NAME_pair(v): two numbers as f16, rounded to nearest, ties to even; infinity beyond them. Unlike
// pack2x16float, whose rounding is the driver's.

//#param NAME: word // of the buffer

fn NAME_pair(v: vec2<f32>) -> u32 {
  let bits = bitcast<vec2<u32>>(v);
  let size = bits & vec2<u32>(0x7fffffffu);
  let rounded = (size + 0xfffu + ((size >> vec2<u32>(13u)) & vec2<u32>(1u))) >> vec2<u32>(13u);
  let normal = min(rounded - 0x1c000u, vec2<u32>(0x7c00u));
  // Below the smallest normal number, elements are multiples of 2⁻²⁴.
  let small = vec2<u32>(round(abs(v) * 16777216.0));
  let magnitude = select(normal, small, size < vec2<u32>(0x38800000u));
  let half = ((bits >> vec2<u32>(16u)) & vec2<u32>(0x8000u)) | magnitude;
  return half.x | (half.y << 16u);
}
