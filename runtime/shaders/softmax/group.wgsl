// y = softmax(scale * x) over rows, for GPUs: one row per workgroup, maximum and sum reduced in
// workgroup memory.
//
// Grid: rows. Workgroup memory: 256 bytes.

//#let LANES = 64
//#include "softmax/rows.wgsl"
//#workgroup LANES, 1, 1

var<workgroup> parts: array<f32, LANES>;
//#include "shared/reduce.wgsl" NAME=max, JOIN="max(a, b)"
//#include "shared/reduce.wgsl" NAME=sum, JOIN="a + b"

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let start = wg.x * params.n / WIDTH;
  let words = (params.n + 3u) / 4u;
  var tops = vec4<f32>(LOWEST);
  for (var word = local.x; word < words; word = word + LANES) { tops = max(tops, four(start, word)); }
  let top = reduce_max(max(max(tops.x, tops.y), max(tops.z, tops.w)), local.x);
  var sums = vec4<f32>();
  for (var word = local.x; word < words; word = word + LANES) {
    sums = sums + exp(max(four(start, word) - top, FLOOR));
  }
  let norm = 1.0 / reduce_sum(sums.x + sums.y + (sums.z + sums.w), local.x);
  for (var word = local.x; word < words; word = word + LANES) {
    put(start, word, exp(max(four(start, word) - top, FLOOR)) * norm);
  }
}
