// y = epilogue(a · b) on matrix units. Factors are rounded to f16 where the unit takes f16, sums are
// f32.
//
// a: [batch, m, k], b: [batch, n, k] (nk) or [batch, k, n] (kn), y: [batch, m, n]; epilogue
// operands only without batches, a low-rank branch only with layout nk. Workgroup: SUBGROUPS;
// grid: n / STORED_COLUMNS, m / TILE_ROWS, batch. Rows and columns past the end are computed on
// clamped addresses and not stored. While a subgroup multiplies one tile, its invocations load the
// next one, which stays in registers until the tile may be overwritten, or goes into a second one.

//#param LAYOUT: nk | kn // of b: rows of k, as weights have, or rows of n
//#param VECTOR_K: bool // k is a multiple of 4
//#param VECTOR_N: bool // n is a multiple of 4
//#param BATCHED: bool = false
//#param QUANTIZED: bool = false // b is a quantised weight; layout nk
//#param GLU: bool = false // layout nk, VECTOR_N
//#param WHOLE_K: bool = false // k fills tiles: no load is past the end of a row
//#param TILES: u32 = 1 // of each factor in workgroup memory; with 2 one is filled while the other is multiplied

//#let A_WIDTH = VECTOR_K ? 4 : 1
//#let Y_WIDTH = VECTOR_N ? 4 : 1
//#let B_WIDTH = LAYOUT == nk ? A_WIDTH : Y_WIDTH
//#buffer read       a A_WIDTH
//#buffer read       b B_WIDTH
//#include "gemm/sizes.wgsl"
//#include "gemm/epilogue.wgsl"
//#include "matrix/tile.wgsl"
//#include "gemm/tile_columns.wgsl"
// Of two subgroups side by side, the first has the sums that are activated.
//#let ITEMS = GLU ? SUBGROUPS / 2 * PART : SUBGROUPS * PART
//#let FIRST = GLU ? "(item + item / PART * PART)" : "item"
//#let FACTOR = ELEMENT == f16 ? half4 : "vec4<f32>"

//#include "gemm/row.wgsl" NAME=a, VECTOR=VECTOR_K
//#include "gemm/slice.wgsl" NAME=a, VECTOR=VECTOR_K, WHOLE=WHOLE_K
//#if LAYOUT == kn
//#include "gemm/columns.wgsl" ENDS=true
//#elif !QUANTIZED
//#include "gemm/row.wgsl" NAME=b, VECTOR=VECTOR_K
//#include "gemm/slice.wgsl" NAME=b, VECTOR=VECTOR_K, WHOLE=WHOLE_K
//#endif
//#if LOW_RANK
//#include "gemm/slice.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/slice.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let n0 = wg.x * STORED_COLUMNS;
  let m0 = wg.y * TILE_ROWS;
  let a_start = a_first(wg.z);
  let b_start = b_first(wg.z);
  let y_start = wg.z * params.m;
  //#for I in 0..ROW_UNITS, J in 0..COLUMN_UNITS
  var s_I_J = RESULT();
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
    //#include "gemm/matrix_fetch.wgsl" FROM="0u"
    //#if TILES == 1
    for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
      //#include "gemm/matrix_store.wgsl" A_AT="0u", B_AT="0u"
      workgroupBarrier();
      if (k0 + DEPTH < steps) {
        //#include "gemm/matrix_fetch.wgsl" FROM="(k0 + DEPTH)"
      }
      //#include "matrix/multiply.wgsl"
      workgroupBarrier();
    }
    //#else
    //#include "gemm/matrix_store.wgsl" A_AT="0u", B_AT="0u"
    workgroupBarrier();
    for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
      let full = k0 / DEPTH % 2u;
      if (k0 + DEPTH < steps) {
        //#include "gemm/matrix_fetch.wgsl" FROM="(k0 + DEPTH)"
      }
      //#include "matrix/multiply.wgsl" A_AT="full * A_TILE", B_AT="full * B_TILE"
      //#include "gemm/matrix_store.wgsl" A_AT="(1u - full) * A_TILE", B_AT="(1u - full) * B_TILE"
      workgroupBarrier();
    }
    //#endif
  }
  //#endfor
  //#for I in 0..ROW_UNITS, S in 0..STRIPS
  //#for J in 0..STRIP_UNITS
  //#let FROM = S * STRIP_UNITS + J
  subgroupMatrixStore<row_major>(&tile_sums, subgroup * UNIT_M * SUM_STEP + J * UNIT_N / 4u, s_I_FROM, SUM_STEP);
  //#endfor
  workgroupBarrier();
  //#let VALUE = GLU ? "glu(column, sum.value, sum_of(FIRST + PART, I * UNIT_M, S * STRIP).value)" : "sum.value"
  for (var item = thread; item < ITEMS; item = item + THREADS) {
    let sum = sum_of(FIRST, I * UNIT_M, S * STRIP);
    let row = m0 + sum.row;
    let column = n0 + sum.column;
    //#if VECTOR_N
    if (row < params.m && column < params.n) { finish(y_start + row, column, VALUE); }
    //#else
    if (row < params.m) {
      //#for C in 0..4
      if (column + C < params.n) { finish(y_start + row, column + C, sum.value[C]); }
      //#endfor
    }
    //#endif
  }
  workgroupBarrier();
  //#endfor
}
