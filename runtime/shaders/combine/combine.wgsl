// y = Σ c[first + k] · x_k over tensors of one shape, of which one may be y itself as it was.
//
// Grid: words / 64.

//#param COUNT: u32 // tensors
//#param OWN: u32 = COUNT // which of them is y; COUNT where none is

//#for K in 0..COUNT
//#if K != OWN
//#buffer read       x_K 4 // dense, padded to a multiple of 4
//#endif
//#endfor
//#buffer read       c   1
//#buffer read_write y   4
//#uniform words: u32 // of four elements
//#uniform first: u32
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.words) { return; }
  //#for K in 0..COUNT
  //#let X = K == OWN ? "y" : "x_K"
  let term_K = c_at(params.first + K) * X_at(i);
  //#endfor
  y_put(i,
    term_0
    //#for K in 1..COUNT
    + term_K
    //#endfor
  );
}
