// y = epilogue(a · b) for GPUs: tiles of a and b, 16 deep, in workgroup memory. While one pair is
// multiplied, the invocations load the next one.
//
// a: [batch, m, k], b: [batch, n, k] (nk) or [batch, k, n] (kn), y: [batch, m, n]; epilogue
// operands only without batches. Workgroup: THREADS x THREADS x SLICES; grid: n / STORED_COLUMNS,
// m / TILE_ROWS, batch. Workgroup memory: 64 * SLICES * (TILE_ROWS + TILE_COLUMNS) bytes.
//
// With factors of f16, sums of 16 products are f16, which GPUs add up twice as fast, and those of all f32.
// A sum that f16 does not hold is infinite, and counts as a factor that it does not hold.
//
// Slices are for products of few tiles: each has every SLICES-th tile along k, and the sums are
// added at the end.

//#param LAYOUT: nk | kn // of b: rows of k, as weights have, or rows of n
//#param THREADS: u32 // along each side of a workgroup, 8 or 16
//#param ROWS: u32 // of the result per invocation
//#param COLUMNS: u32 // of the result per invocation; 4 where there are slices
//#param SLICES: u32 = 1
//#param ELEMENT: f16 | f32 = f32 // of the factors in workgroup memory; f32 where there are slices
//#param VECTOR_K: bool // k is a multiple of 4
//#param WHOLE_K: bool = false // k fills tiles: only the last load is past the end of a row, and not used
//#param BATCHED: bool = false
//#param QUANTIZED: bool = false // b is a quantised weight; layout nk
//#param GLU: bool = false // layout nk

//#let TILE_ROWS = ROWS * THREADS
//#let TILE_COLUMNS = COLUMNS * THREADS
//#let DEPTH = ELEMENT == f16 ? 8 : 4 // vec4s along k in a tile, 32 or 16 elements
//#let STRIDE = DEPTH * SLICES // vec4s along k from one tile of a slice to the next
//#let STORED = GLU ? COLUMNS / 2 : COLUMNS // of them, that are stored
//#let FACTOR = ELEMENT == f16 ? half4 : "vec4<f32>"
//#let COUNT = THREADS * THREADS // invocations of a slice
//#let A_LOADS = TILE_ROWS * DEPTH / COUNT // vec4s of a tile that an invocation brings
//#let B_LOADS = TILE_COLUMNS * DEPTH / COUNT
//#let A_WIDTH = VECTOR_K ? 4 : 1
//#let B_WIDTH = LAYOUT == nk ? A_WIDTH : 1
//#buffer read       a A_WIDTH
//#buffer read       b B_WIDTH
//#include "gemm/sizes.wgsl"
//#include "gemm/epilogue.wgsl" Y_WIDTH=1
//#include "gemm/tile_columns.wgsl"
//#workgroup THREADS, THREADS, SLICES

//#include "gemm/row.wgsl" NAME=a, VECTOR=VECTOR_K
//#include "gemm/slice.wgsl" NAME=a, VECTOR=VECTOR_K, WHOLE=WHOLE_K
//#if LAYOUT == kn
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
//#include "gemm/slice.wgsl" NAME=b, VECTOR=false, WHOLE=WHOLE_K
//#elif !QUANTIZED
//#include "gemm/row.wgsl" NAME=b, VECTOR=VECTOR_K
//#include "gemm/slice.wgsl" NAME=b, VECTOR=VECTOR_K, WHOLE=WHOLE_K
//#endif
//#if ELEMENT == f16
//#include "shared/half.wgsl"
//#endif
//#if LOW_RANK
//#include "gemm/slice.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/slice.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif

// The rows of an invocation lie in one block each. The block's index is a constant, so that one check of
// bounds serves all blocks, and their distance stands in the instruction.
//#let BLOCK = THREADS * STRIDE
var<workgroup> tile_a: array<array<vec4<ELEMENT>, BLOCK>, ROWS>;
var<workgroup> tile_b: array<array<vec4<ELEMENT>, BLOCK>, COLUMNS>;

// Where a vec4 of a row lies in its block: so that neighbouring rows, eight of f32 or sixteen of f16, lie
// in different banks.
fn place(row: u32, word: u32) -> u32 { return row * DEPTH + (word ^ ((row >> 1u) % DEPTH)); }

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * THREADS + local.x;
  let n0 = wg.x * STORED_COLUMNS;
  let m0 = wg.y * TILE_ROWS;
  let own = local.z * THREADS * DEPTH;
  let own_k = local.z * DEPTH;
  let a_start = a_first(wg.z);
  let b_start = b_first(wg.z);
  let y_start = wg.z * params.m;
  //#for R in 0..ROWS, C in 0..COLUMNS
  var s_R_C = 0.0;
  //#endfor
  //#let PASSES = LOW_RANK ? 2 : 1
  //#for PASS in 0..PASSES
  {
    //#include "gemm/pass.wgsl"
    //#for I in 0..A_LOADS
    var next_a_I = vec4<ELEMENT>();
    //#endfor
    //#for I in 0..B_LOADS
    var next_b_I = vec4<ELEMENT>();
    //#endfor
    //#include "gemm/shared_fetch.wgsl" FROM="own_k"
    let own_block = thread / DEPTH / THREADS;
    let own_place = own + place(thread / DEPTH % THREADS, thread % DEPTH);
    for (var k0 = 0u; k0 < steps; k0 = k0 + STRIDE) {
      //#for I in 0..A_LOADS
      tile_a[own_block + I * COUNT / DEPTH / THREADS][own_place] = next_a_I;
      //#endfor
      //#for I in 0..B_LOADS
      //#include "gemm/shared_place.wgsl"
      tile_b[ROW / THREADS][own + place(ROW % THREADS, WORD)] = next_b_I;
      //#endfor
      workgroupBarrier();
      //#include "gemm/shared_fetch.wgsl" FROM="(k0 + STRIDE + own_k)"
      //#if ELEMENT == f16
      //#for R in 0..ROWS, C in 0..COLUMNS
      var h_R_C = vec2<f16>();
      //#endfor
      //#endif
      // A loop, so that software adapters compile it in seconds; no compiler of a GPU unrolls it.
      for (var d = 0u; d < DEPTH; d = d + 1u) {
        let at_b = own + place(local.x, d);
        let at_a = own + place(local.y, d);
        //#for C in 0..COLUMNS
        let w_C = tile_b[C][at_b];
        //#endfor
        //#for R in 0..ROWS
        let x_R = tile_a[R][at_a];
        //#if ELEMENT == f16
        //#for C in 0..COLUMNS
        h_R_C = fma(x_R.zw, w_C.zw, fma(x_R.xy, w_C.xy, h_R_C));
        //#endfor
        //#else
        //#for P in x y z w, C in 0..COLUMNS
        s_R_C = fma(x_R.P, w_C.P, s_R_C);
        //#endfor
        //#endif
        //#endfor
      }
      //#if ELEMENT == f16
      //#for R in 0..ROWS, C in 0..COLUMNS
      s_R_C = s_R_C + f32(h_R_C.x) + f32(h_R_C.y);
      //#endfor
      //#endif
      workgroupBarrier();
    }
  }
  //#endfor
  //#if ELEMENT == f16
  //#for R in 0..ROWS, C in 0..COLUMNS
  count_sum(s_R_C);
  //#endfor
  //#endif
  //#for S in 1..SLICES
  if (local.z == S) {
    //#for R in 0..ROWS
    tile_a[R][thread] = vec4<f32>(s_R_0, s_R_1, s_R_2, s_R_3);
    //#endfor
  }
  workgroupBarrier();
  if (local.z == 0u) {
    //#for R in 0..ROWS
    let more_S_R = tile_a[R][thread];
    //#for C in 0..4
    s_R_C = s_R_C + more_S_R[C];
    //#endfor
    //#endfor
  }
  workgroupBarrier();
  //#endfor
  //#for R in 0..ROWS
  if (local.z == 0u && m0 + local.y + R * THREADS < params.m) {
    //#for C in 0..STORED
    //#let D = C + STORED
    //#let VALUE = GLU ? "glu(n0 + local.x + C * THREADS, s_R_C, s_R_D)" : "s_R_C"
    if (n0 + local.x + C * THREADS < params.n) {
      finish(y_start + m0 + local.y + R * THREADS, n0 + local.x + C * THREADS, VALUE);
    }
    //#endfor
  }
  //#endfor
}
