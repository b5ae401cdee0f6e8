// Rounds each row to int8 with one scale, that of its largest magnitude: y = [scale, 0, 0, 0,
// elements by fours].
//
// A row with a NaN or an infinite element gets that as its scale, so that it shows in every
// product. Grid: rows.

//#let THREADS = 64
//#let HEADER = 1 // vec4<u32>s in front of a row's elements: its scale, an f32, and three unused words
//#buffer read       x 4 // [rows, k], k a multiple of 16
//#buffer read_write y 4 // u32 [rows, 4 + k / 4]
//#uniform k: u32
//#workgroup THREADS, 1, 1

var<workgroup> parts: array<u32, THREADS>;
//#include "shared/reduce.wgsl" NAME=max, JOIN="max(a, b)", LANES=THREADS, TYPE=u32

fn packed(v: vec4<f32>) -> u32 { return pack4xI8Clamp(vec4<i32>(round(v))); }

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let x_start = wg.x * (params.k / 4u);
  let y_start = wg.x * (params.k / 16u + HEADER);
  // Magnitudes are ordered as their bits are, with NaN above all.
  var bits = vec4<u32>();
  for (var i = local.x; i < params.k / 4u; i = i + THREADS) {
    bits = max(bits, bitcast<vec4<u32>>(x_at(x_start + i)) & vec4<u32>(0x7fffffffu));
  }
  let largest = reduce_max(max(max(bits.x, bits.y), max(bits.z, bits.w)), local.x);
  let scale = bitcast<f32>(largest) / 127.0;
  let factor = select(0.0, 1.0 / scale, scale > 1e-35);
  if (local.x == 0u) { y_put(y_start, vec4<u32>(bitcast<u32>(scale), 0u, 0u, 0u)); }
  for (var i = local.x; i < params.k / 16u; i = i + THREADS) {
    let at = x_start + 4u * i;
    let words = vec4<u32>(
      packed(factor * x_at(at)),
      packed(factor * x_at(at + 1u)),
      packed(factor * x_at(at + 2u)),
      packed(factor * x_at(at + 3u)),
    );
    y_put(y_start + HEADER + i, words);
  }
}
