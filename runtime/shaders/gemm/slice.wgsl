// NAME_slice(start, k): as NAME_four, as factors of ELEMENT. Unless the row is WHOLE, zeros for any k
// past its end: the last tile may reach beyond it.

//#param NAME: word
//#param LENGTH: wgsl = "params.k"
//#param VECTOR: bool // LENGTH is a multiple of 4
//#param ELEMENT: f16 | f32 = f32
//#param WHOLE: bool = false // no k is past the end

//#let K = WHOLE ? "k" : "min(k, (LENGTH + 3u) / 4u - 1u)"
//#let FOUR = ELEMENT == f32 ? "NAME_four(start, K)" : VECTOR ? "NAME_half(start + K)" : "half4(NAME_four(start, K))"
fn NAME_slice(start: u32, k: u32) -> vec4<ELEMENT> {
  //#if WHOLE
  return FOUR;
  //#else
  return select(vec4<ELEMENT>(), FOUR, vec4<bool>(k < (LENGTH + 3u) / 4u));
  //#endif
}
