// y = x at another size: every position between four of x, whose pixels are areas (align_corners=False).
//
// One invocation per access of WIDTH channels of y. Grid: accesses / 64.

//#param WIDTH: u32 // 4 needs C % 4 == 0

//#buffer read       x WIDTH // [B, height, width, words * WIDTH]
//#buffer read_write y WIDTH // [B, rows, columns, words * WIDTH]
//#uniform accesses: u32
//#uniform words: u32
//#uniform height: u32
//#uniform width: u32
//#uniform rows: u32
//#uniform columns: u32
//#uniform row_step: f32 // rows of x for one of y
//#uniform column_step: f32
//#workgroup 64, 1, 1

//#include "sample/between.wgsl"

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.accesses) { return; }
  let word = id % params.words;
  let place = id / params.words;
  let column = place % params.columns;
  let row = place / params.columns % params.rows;
  let image = place / params.columns / params.rows * params.height;
  let down = max((f32(row) + 0.5) * params.row_step - 0.5, 0.0);
  let right = max((f32(column) + 0.5) * params.column_step - 0.5, 0.0);
  y_put(id, between(image, down, right, word));
}
