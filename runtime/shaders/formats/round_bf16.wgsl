// NAME_pair(v): two numbers as bf16, rounded to nearest, ties to even; infinity beyond them.

//#param NAME: word // of the buffer

fn NAME_pair(v: vec2<f32>) -> u32 {
  let bits = bitcast<vec2<u32>>(v);
  let half = (bits + 0x7fffu + ((bits >> vec2<u32>(16u)) & vec2<u32>(1u))) >> vec2<u32>(16u);
  return half.x | (half.y << 16u);
}
