// y = epilogue(a · b) for GPUs: tiles of a and b, 16 deep, in workgroup memory.
//
// a: [batch, m, k], b: [batch, n, k] (nk) or [batch, k, n] (kn), y: [batch, m, n]; epilogue
// operands only without batches. Workgroup: 8 x 8 x 1; grid: n / TILE, m / TILE, batch. Workgroup
// memory: 1280 * SIDE bytes.

//#param LAYOUT: nk | kn // of b: rows of k, as weights have, or rows of n
//#param SIDE: u32 // rows and columns of the result per invocation; a workgroup makes 8 times as many of each
//#param VECTOR_K: bool // k is a multiple of 4
//#param BATCHED: bool = false

//#let THREADS = 8 // along each side of a workgroup
//#let TILE = SIDE * THREADS
//#let DEPTH = 4 // vec4s along k in a tile
//#let STRIDE = DEPTH + 1 // vec4s from one row of a tile to the next: odd, so that neighbours lie in different banks
//#let LOADS = TILE * DEPTH / (THREADS * THREADS) // vec4s of each tile that an invocation brings
//#let ROW_STEP = THREADS * THREADS / DEPTH // rows that the workgroup brings at a time
//#let A_WIDTH = VECTOR_K ? 4 : 1
//#let B_WIDTH = LAYOUT == nk ? A_WIDTH : 1
//#buffer read       a A_WIDTH
//#buffer read       b B_WIDTH
//#include "gemm/sizes.wgsl"
//#include "gemm/epilogue.wgsl" Y_WIDTH=1
//#workgroup THREADS, THREADS, 1

//#include "gemm/row.wgsl" NAME=a, VECTOR=VECTOR_K
//#include "gemm/slice.wgsl" NAME=a
//#if LAYOUT == nk
//#include "gemm/row.wgsl" NAME=b, VECTOR=VECTOR_K
//#else
// Elements 4k … 4k + 3 of the column at start, zeros past its end.
fn b_one(start: u32, i: u32) -> f32 {
  return select(0.0, b_at(start + min(i, params.k - 1u) * params.n), i < params.k);
}
fn b_four(start: u32, k: u32) -> vec4<f32> {
  return vec4<f32>(
    b_one(start, 4u * k),
    b_one(start, 4u * k + 1u),
    b_one(start, 4u * k + 2u),
    b_one(start, 4u * k + 3u),
  );
}
//#endif
//#include "gemm/slice.wgsl" NAME=b
//#if LOW_RANK
//#include "gemm/slice.wgsl" NAME=t, LENGTH=params.rank
//#include "gemm/slice.wgsl" NAME=up, LENGTH=params.rank
//#endif

var<workgroup> tile_a: array<vec4<f32>, TILE * STRIDE>;
var<workgroup> tile_b: array<vec4<f32>, TILE * STRIDE>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * THREADS + local.x;
  let n0 = wg.x * TILE;
  let m0 = wg.y * TILE;
  let a_start = a_first(wg.z);
  let b_start = b_first(wg.z);
  let y_start = wg.z * params.m;
  //#for R in 0..SIDE, C in 0..SIDE
  var s_R_C = 0.0;
  //#endfor
  //#let PASSES = LOW_RANK ? 2 : 1
  //#for PASS in 0..PASSES
  {
    //#include "gemm/pass.wgsl"
    for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
      let word = thread % DEPTH;
      //#for I in 0..LOADS
      let a_row_I = thread / DEPTH + I * ROW_STEP;
      tile_a[a_row_I * STRIDE + word] = A_slice(A_FIRST + min(m0 + a_row_I, params.m - 1u) * row_words, k0 + word);
      //#endfor
      //#if LAYOUT == nk
      //#for I in 0..LOADS
      let b_row_I = thread / DEPTH + I * ROW_STEP;
      tile_b[b_row_I * STRIDE + word] = B_slice(B_FIRST + min(n0 + b_row_I, params.n - 1u) * row_words, k0 + word);
      //#endfor
      //#else
      // Neighbouring invocations read neighbouring columns.
      //#for I in 0..LOADS
      let item_I = thread + I * THREADS * THREADS;
      let column_I = item_I % TILE;
      let start_I = b_start + min(n0 + column_I, params.n - 1u);
      tile_b[column_I * STRIDE + item_I / TILE] = b_slice(start_I, k0 + item_I / TILE);
      //#endfor
      //#endif
      workgroupBarrier();
      //#for K in 0..DEPTH
      //#for C in 0..SIDE
      let w_K_C = tile_b[(local.x + C * THREADS) * STRIDE + K];
      //#endfor
      //#for R in 0..SIDE
      let x_K_R = tile_a[(local.y + R * THREADS) * STRIDE + K];
      //#for C in 0..SIDE
      s_R_C = s_R_C + dot(x_K_R, w_K_C);
      //#endfor
      //#endfor
      //#endfor
      workgroupBarrier();
    }
  }
  //#endfor
  //#for R in 0..SIDE
  if (m0 + local.y + R * THREADS < params.m) {
    //#for C in 0..SIDE
    if (n0 + local.x + C * THREADS < params.n) {
      finish(y_start + m0 + local.y + R * THREADS, n0 + local.x + C * THREADS, s_R_C);
    }
    //#endfor
  }
  //#endfor
}
