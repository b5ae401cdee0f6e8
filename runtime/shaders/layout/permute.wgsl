// A transposition of any number of dimensions: y is dense, x is read through a stride per dimension
// of y.
//
// Sizes and strides are in words of WIDTH elements; the innermost stride is 1 when the width is 4.
// Grid: count / 64.

//#param RANK: u32
//#param WIDTH: u32

//#buffer read       x WIDTH
//#buffer read_write y WIDTH
//#uniform count: u32 // words of y
//#for D in 0..RANK
//#uniform stride_D: u32
//#endfor
//#for D in 1..RANK
//#uniform size_D: u32
//#endfor
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  //#include "shared/coordinates.wgsl" INDEX=i
  y_put(i, x_at(
    c_0 * params.stride_0
    //#for D in 1..RANK
    + c_D * params.stride_D
    //#endfor
  ));
}
