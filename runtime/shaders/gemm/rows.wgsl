// y = epilogue(a · bᵀ) for GPUs and a few rows, where reading b is all the work, or few columns,
// where tiles would leave most of the adapter idle: k is split over invocations.
//
// a: [m, k], b: [n, k], y: [m, n]. Workgroup: 8 slices of k x 8 columns x 1; grid: n / 8, m / ROWS.
// Workgroup memory: 256 * ROWS bytes.

//#param ROWS: u32 // that a workgroup makes, up to 8; those past the end are computed on the last one and not stored
//#param VECTOR_K: bool // k is a multiple of 4

//#let SLICES = 8 // invocations that share a column, each with every 8th vec4 along k
//#let COLUMNS = 8 // per workgroup
//#let THREADS = SLICES * COLUMNS
//#let A_WIDTH = VECTOR_K ? 4 : 1
//#let B_WIDTH = A_WIDTH
//#buffer read       a A_WIDTH
//#buffer read       b B_WIDTH
//#include "gemm/sizes.wgsl"
//#include "gemm/epilogue.wgsl" Y_WIDTH=1
//#workgroup SLICES, COLUMNS, 1

//#include "gemm/row.wgsl" NAME=a, VECTOR=VECTOR_K
//#include "gemm/row.wgsl" NAME=b, VECTOR=VECTOR_K

var<workgroup> partial: array<f32, ROWS * THREADS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * SLICES + local.x;
  let n0 = wg.x * COLUMNS;
  let m0 = wg.y * ROWS;
  //#for R in 0..ROWS
  var s_R = 0.0;
  //#endfor
  //#let PASSES = LOW_RANK ? 2 : 1
  //#for PASS in 0..PASSES
  {
    //#include "gemm/pass.wgsl"
    let w_start = min(n0 + local.y, params.n - 1u) * row_words;
    //#for R in 0..ROWS
    let start_R = min(m0 + R, params.m - 1u) * row_words;
    //#endfor
    for (var k = local.x; k < steps; k = k + SLICES) {
      let w = B_four(w_start, k);
      //#for R in 0..ROWS
      s_R = s_R + dot(A_four(start_R, k), w);
      //#endfor
    }
  }
  //#endfor
  //#for R in 0..ROWS
  partial[R * THREADS + thread] = s_R;
  //#endfor
  workgroupBarrier();
  let row = m0 + thread / COLUMNS;
  let column = n0 + thread % COLUMNS;
  if (thread < ROWS * COLUMNS && row < params.m && column < params.n) {
    let first = thread * SLICES;
    finish(row, column,
      partial[first]
      //#for S in 1..SLICES
      + partial[first + S]
      //#endfor
    );
  }
}
