// y = x where the flow leads: every position takes what lies `flow` pixels away, between four; the edge goes on.
//
// One invocation per access of WIDTH channels of y. Grid: accesses / 64.

//#param WIDTH: u32 // 4 needs C % 4 == 0

//#buffer read       x    WIDTH // [B, height, width, words * WIDTH]
//#buffer read       flow 1     // [B, height, width, 2]: right, down
//#buffer read_write y    WIDTH
//#uniform accesses: u32
//#uniform words: u32
//#uniform height: u32
//#uniform width: u32
//#workgroup 64, 1, 1

//#include "sample/between.wgsl"

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.accesses) { return; }
  let word = id % params.words;
  let place = id / params.words;
  let column = place % params.width;
  let row = place / params.width % params.height;
  let image = place / params.width / params.height * params.height;
  let right = clamp(f32(column) + flow_at(2u * place), 0.0, f32(params.width - 1u));
  let down = clamp(f32(row) + flow_at(2u * place + 1u), 0.0, f32(params.height - 1u));
  y_put(id, between(image, down, right, word));
}
