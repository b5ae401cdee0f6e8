// NAME_unpacked(word): the two f16 numbers of a word, as unpack2x16float() gives them, by integer arithmetic.

//#param NAME: word // of the buffer

fn NAME_unpacked(word: u32) -> vec2<f32> {
  let bits = vec2<u32>(word & 0xffffu, word >> 16u);
  let size = bits & vec2<u32>(0x7fffu);
  // The exponent's bias is 15 for f16 and 127 for f32; infinity and NaN have the highest exponent of both.
  let bias = select(vec2<u32>(0x38000000u), vec2<u32>(0x70000000u), size >= vec2<u32>(0x7c00u));
  let normal = (size << vec2<u32>(13u)) + bias;
  // Below the smallest normal number, elements are multiples of 2⁻²⁴.
  let small = bitcast<vec2<u32>>(vec2<f32>(size) * 5.9604644775390625e-8);
  let magnitude = select(normal, small, size < vec2<u32>(0x400u));
  return bitcast<vec2<f32>>(((bits & vec2<u32>(0x8000u)) << vec2<u32>(16u)) | magnitude);
}
