// y = softmax(scale * x) over rows, for software adapters: one row per invocation, in three walks.
//
// Grid: rows / 8.

//#include "softmax/rows.wgsl"
//#workgroup 8, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let row = wg.x * 8u + local.x;
  if (row >= params.rows) { return; }
  let start = row * params.n / WIDTH;
  let words = (params.n + 3u) / 4u;
  var tops = vec4<f32>(LOWEST);
  for (var word = 0u; word < words; word = word + 1u) { tops = max(tops, four(start, word)); }
  let top = max(max(tops.x, tops.y), max(tops.z, tops.w));
  var sums = vec4<f32>();
  for (var word = 0u; word < words; word = word + 1u) {
    sums = sums + exp(max(four(start, word) - top, FLOOR));
  }
  let norm = 1.0 / (sums.x + sums.y + (sums.z + sums.w));
  for (var word = 0u; word < words; word = word + 1u) {
    put(start, word, exp(max(four(start, word) - top, FLOOR)) * norm);
  }
}
