// Copies runs: y[o * y_stride + y_start + j] = x[o * x_stride + x_start + j] for j < run, o < count
// / run.
//
// All quantities are in words of WIDTH elements. Grid: count / 64.

//#param WIDTH: u32

//#buffer read       x WIDTH
//#buffer read_write y WIDTH
//#uniform count: u32
//#uniform run: u32
//#uniform x_stride: u32
//#uniform x_start: u32
//#uniform y_stride: u32
//#uniform y_start: u32
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let outer = i / params.run;
  let inner = i % params.run;
  y_put(outer * params.y_stride + params.y_start + inner, x_at(outer * params.x_stride + params.x_start + inner));
}
