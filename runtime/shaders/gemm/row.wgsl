// NAME_four(start, k): elements 4k … 4k + 3 of the row of LENGTH elements at start, zeros past its
// end.

//#param NAME: word
//#param LENGTH: wgsl = "params.k"
//#param VECTOR: bool // LENGTH is a multiple of 4

//#if VECTOR
fn NAME_four(start: u32, k: u32) -> vec4<f32> { return NAME_at(start + k); }
//#else
fn NAME_one(start: u32, i: u32) -> f32 {
  return select(0.0, NAME_at(start + min(i, LENGTH - 1u)), i < LENGTH);
}
fn NAME_four(start: u32, k: u32) -> vec4<f32> {
  return vec4<f32>(
    NAME_one(start, 4u * k),
    NAME_one(start, 4u * k + 1u),
    NAME_one(start, 4u * k + 2u),
    NAME_one(start, 4u * k + 3u),
  );
}
//#endif
