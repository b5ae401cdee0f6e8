// y = x: copies a dense tensor to another of the same type, four elements per invocation.
//
// Grid: words / 64.

//#buffer read       x 4 // any shape, padded to a multiple of 4
//#buffer read_write y 4 // as many elements
//#uniform words: u32 // of four elements
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i < params.words) { y_put(i, x_at(i)); }
}
