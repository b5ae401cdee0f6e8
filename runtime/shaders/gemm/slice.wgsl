// NAME_slice(start, k): as NAME_four, but zeros for any k past the end of the row: the last tile
// may reach beyond it.

//#param NAME: word
//#param LENGTH: wgsl = "params.k"

fn NAME_slice(start: u32, k: u32) -> vec4<f32> {
  let steps = (LENGTH + 3u) / 4u;
  return select(vec4<f32>(), NAME_four(start, min(k, steps - 1u)), vec4<bool>(k < steps));
}
