// Sizes of a matrix product, and where its matrices lie in a batch.
//
// Matrix z = outer * batch_inner + inner of the result is made from those at outer * a_outer +
// inner * a_inner of a, and the same of b (in elements; 0 where it is repeated).

//#param BATCHED: bool = false
//#param A_WIDTH: u32
//#param B_WIDTH: u32

//#uniform m: u32
//#uniform n: u32
//#uniform k: u32
//#if BATCHED
//#uniform batch_inner: u32
//#uniform a_outer: u32
//#uniform a_inner: u32
//#uniform b_outer: u32
//#uniform b_inner: u32
//#endif

// Where matrix z begins, in accesses.
//#for X in a b
//#let WIDTH = X == a ? A_WIDTH : B_WIDTH
fn X_first(z: u32) -> u32 {
  //#if BATCHED
  let outer = z / params.batch_inner;
  let inner = z % params.batch_inner;
  return (outer * params.X_outer + inner * params.X_inner) / WIDTH;
  //#else
  return 0u;
  //#endif
}
//#endfor
