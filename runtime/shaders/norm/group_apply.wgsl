// Third of three kernels of groupNorm. y = act((x - pivot) * factor + offset), one of each per
// batch entry and channel.
//
// Grid: count / 64.

//#param WIDTH: u32

//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"
//#buffer read       x      WIDTH // [batch, positions, words * WIDTH]
//#buffer read       affine WIDTH // [batch, 3, words * WIDTH]: pivots, factors, offsets
//#buffer read_write y      WIDTH
//#uniform count: u32 // words of x
//#uniform words: u32
//#uniform positions: u32
//#workgroup 64, 1, 1

//#include "shared/activation.wgsl"

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let words = params.words;
  let at = (i / (words * params.positions)) * 3u * words + i % words;
  let value = (x_at(i) - affine_at(at)) * affine_at(at + words) + affine_at(at + 2u * words);
  y_put(i, act_ACTIVATION(value));
}
