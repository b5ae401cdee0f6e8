// y = epilogue(a · b) for software adapters: a tile of named registers per invocation, no workgroup
// memory.
//
// a: [batch, m, k], b: [batch, n, k] (nk) or [batch, k, n] (kn), y: [batch, m, n]; epilogue
// operands only without batches. Workgroup: 8 x 1 x 1, side by side along n, so that all read the
// same elements of a at the same time; grid: n / (8 * COLUMNS), m / ROWS, batch. Without batches
// the columns are cut into bands of `band` workgroups, one after the other along z, so that a band
// of b stays in the cache while all of a passes by. Rows and columns past the end are computed on
// clamped addresses and not stored.
//
// With NORM, a stands for n(a) ⊙ gain + offset, n the layer normalisation of its rows, and gain and
// offset vectors of k:
//
//     gain = weight · (1 + scale),  offset = bias · (1 + scale) + shift
//
// Mean and deviation need the whole row, so they come last. With a pivot p in each row, the walk
// sums s = Σ (a - p) · gain · b, and for the columns g = Σ gain · b and o = Σ offset · b; then
//
//     result = (s - (mean - p) · g) / deviation + o
//
// The pivot is the mean of a row's first four elements: it is at most half of √k deviations from
// the mean, so that no row loses more digits than that.

//#param LAYOUT: nk | kn // of b: rows of k, as weights have, or rows of n
//#param ROWS: u32 // of the result per invocation
//#param COLUMNS: u32 // of the result per invocation, a multiple of 4
//#param VECTOR_K: bool // k is a multiple of 4
//#param VECTOR_N: bool // n is a multiple of 4
//#param BATCHED: bool = false
//#param BROADCASTS: bool // lanes load one row of a each and broadcast it: needs subgroups of exactly 8
//#param SCALES: none | runs | row = none // b is quantised, with one scale for RUN vec4s or for a row; k is whole runs
//#param RUN: u32 = 0
//#param FINISHED: u32 = 4 // rows at once, without NORM: fewer are shorter code, and take longer
//#param TURNS: bool = false // words of a quantised b stay packed for 32 elements, in place of a load for every vec4
//#param NORM: bool = false // needs BROADCASTS and VECTOR_K; no batches, no TURNS
//#param NORM_WEIGHT: bool = false
//#param NORM_BIAS: bool = false
//#param NORM_SCALE: bool = false
//#param NORM_SHIFT: bool = false

//#let LANES = 8
//#let GROUPS = COLUMNS / 4
//#let LOADS = BROADCASTS ? (ROWS + LANES - 1) / LANES : ROWS // rows of a that an invocation loads
//#let UNROLLED_ROWS = 4 // up to which the whole run is written out: more would not fit the instruction cache
//#let LEAST = NORM ? LANES : FINISHED
//#let LEAVING = ROWS < LEAST ? ROWS : LEAST // rows that are finished at once
//#let A_WIDTH = VECTOR_K ? 4 : 1
//#let Y_WIDTH = VECTOR_N ? 4 : 1
//#let B_WIDTH = LAYOUT == nk ? A_WIDTH : Y_WIDTH
//#buffer read       a A_WIDTH
//#buffer read       b B_WIDTH
//#if NORM_WEIGHT
//#buffer read       norm_weight 4 // [k]
//#endif
//#if NORM_BIAS
//#buffer read       norm_bias 4 // [k]
//#endif
//#if NORM_SCALE
//#buffer read       norm_scale 4 // [k]
//#endif
//#if NORM_SHIFT
//#buffer read       norm_shift 4 // [k]
//#endif
//#include "gemm/sizes.wgsl"
//#if !BATCHED
//#uniform band: u32 // workgroups
//#endif
//#if NORM
//#uniform norm_eps: f32
//#endif
//#param SCALE: bool = false
//#param BIAS: bool = false
//#param ASKS_BIAS: bool = false // needs BIAS: it is bound whether there is one or not, and the dispatch says so
//#if ASKS_BIAS
//#uniform has_bias: u32
//#endif
// Sums that start at the bias spare every row a load of it, and half of the compiler's time.
//#let STARTS_AT_BIAS = BIAS && !SCALE
//#include "gemm/epilogue.wgsl" ADDS_BIAS=BIAS && SCALE
//#workgroup LANES, 1, 1

//#include "gemm/row.wgsl" NAME=a, VECTOR=VECTOR_K
//#if LAYOUT == kn
//#include "gemm/columns.wgsl" ENDS=!VECTOR_K
//#elif SCALES == none
//#include "gemm/row.wgsl" NAME=b, VECTOR=VECTOR_K
//#endif
//#if STARTS_AT_BIAS
fn biases(column: u32) -> vec4<f32> {
  //#if VECTOR_N
  return bias_at(min(column, params.n - 4u) / 4u);
  //#else
  let last = params.n - 1u;
  return vec4<f32>(
    bias_at(min(column, last)),
    bias_at(min(column + 1u, last)),
    bias_at(min(column + 2u, last)),
    bias_at(min(column + 3u, last)),
  );
  //#endif
}
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  //#let TILE_X = BATCHED ? "wg.x" : "(wg.z * params.band + wg.x)"
  let n0 = (TILE_X * LANES + local.x) * COLUMNS;
  let m0 = wg.y * ROWS;
  //#if !BROADCASTS
  if (n0 >= params.n) { return; }
  //#endif
  let a_start = a_first(wg.z);
  let b_start = b_first(wg.z);
  //#let Y_ROW = BATCHED ? "wg.z * params.m + m0" : "m0"
  let y_row = Y_ROW;
  //#for G in 0..GROUPS
  //#let START = STARTS_AT_BIAS ? "biases(n0 + G * 4u)" : "vec4<f32>()"
  //#if ASKS_BIAS
  var start_G = vec4<f32>();
  if (params.has_bias != 0u) { start_G = START; }
  //#else
  let start_G = START;
  //#endif
  let place_G = place_of(n0 + G * 4u);
  //#endfor
  //#for R in 0..ROWS, G in 0..GROUPS
  //#let START = NORM ? "vec4<f32>()" : "start_G"
  var s_R_G = START;
  //#endfor
  //#if NORM
  //#for G in 0..GROUPS
  var gains_G = vec4<f32>();
  var offsets_G = start_G;
  //#endfor
  //#for L in 0..LOADS
  var mean_L = 0.0;
  var factor_L = 0.0;
  //#endfor
  //#endif
  //#let PASSES = LOW_RANK ? 2 : 1
  //#for PASS in 0..PASSES
  {
    //#include "gemm/pass.wgsl"
    //#for L in 0..LOADS
    //#let ROW = BROADCASTS ? "L * LANES + local.x" : "L"
    let a_L = A_FIRST + min(m0 + ROW, params.m - 1u) * row_words;
    //#endfor
    //#if LAYOUT == nk
    //#for C in 0..COLUMNS
    let b_C = B_FIRST + min(n0 + C, params.n - 1u) * row_words;
    //#endfor
    //#endif
    //#if NORM
    //#for L in 0..LOADS
    let pivot_L = vec4<f32>(dot(a_four(a_L, 0u), vec4<f32>(0.25)));
    var moment_L = vec4<f32>();
    var square_L = vec4<f32>();
    //#endfor
    //#endif
    //#if PASS == 0 && SCALES == runs && ROWS <= UNROLLED_ROWS
    for (var k0 = 0u; k0 < steps; k0 = k0 + 8u) {
      //#for C in 0..COLUMNS
      let run_C = b_run(b_C + k0);
      //#endfor
      //#for J in 0..8
      {
        let k = k0 + J;
        //#include "gemm/registers_step.wgsl" COLUMN=packed
      }
      //#endfor
    }
    //#elif PASS == 0 && TURNS
    // Words of a run are turned, as an index into them would be a search. The bound is no constant, so that the driver
    // keeps the loop.
    let turns = min(4u, params.k);
    for (var k0 = 0u; k0 < steps; k0 = k0 + 8u) {
      //#for C in 0..COLUMNS
      let run_C = b_run(b_C + k0);
      var low_C = run_C.low;
      var high_C = run_C.high;
      //#endfor
      for (var j = 0u; j < turns; j = j + 1u) {
        //#include "gemm/registers_turn.wgsl"
        //#for C in 0..COLUMNS
        low_C = low_C.yzwx;
        high_C = high_C.yzwx;
        //#endfor
      }
    }
    //#elif PASS == 0 && SCALES != none
    //#let RUN_STEPS = SCALES == row ? "steps" : "RUN"
    let run = RUN_STEPS;
    for (var k0 = 0u; k0 < steps; k0 = k0 + run) {
      //#for C in 0..COLUMNS
      let scale_C = b_scale(b_C + k0);
      //#endfor
      for (var k = k0; k < k0 + run; k = k + 1u) {
        //#include "gemm/registers_step.wgsl" COLUMN=scaled
      }
    }
    //#else
    for (var k = 0u; k < steps; k = k + 1u) {
      //#include "gemm/registers_step.wgsl" COLUMN=plain
    }
    //#endif
    //#if NORM
    //#for L in 0..LOADS
    mean_L = dot(moment_L, vec4<f32>(1.0)) / f32(params.k);
    let spread_L = dot(square_L, vec4<f32>(1.0)) / f32(params.k) - mean_L * mean_L;
    factor_L = inverseSqrt(max(spread_L, 0.0) + params.norm_eps);
    //#endfor
    //#endif
  }
  //#endfor
  // Sums leave from the first slots, and the others move up: software adapters compile a branch for every element that
  // a lane loads or stores, which would take longer for all rows than everything else.
  let rows = min(ROWS, params.m - m0);
  for (var row = 0u; row < rows; row = row + LEAVING) {
    //#for R in 0..LEAVING
    //#if NORM
    let mean_of_R = subgroupBroadcast(mean_0, R);
    let factor_of_R = subgroupBroadcast(factor_0, R);
    //#for G in 0..GROUPS
    s_R_G = (s_R_G - mean_of_R * gains_G) * factor_of_R + offsets_G;
    //#endfor
    //#endif
    if (row + R < rows) {
      //#for G in 0..GROUPS
      //#if VECTOR_N
      if (n0 + G * 4u < params.n) { finish_at(place_G, y_row + row + R, n0 + G * 4u, s_R_G); }
      //#else
      //#for C in 0..4
      if (n0 + G * 4u + C < params.n) { finish(y_row + row + R, n0 + G * 4u + C, s_R_G[C]); }
      //#endfor
      //#endif
      //#endfor
    }
    //#endfor
    //#let STAYING = ROWS - LEAVING
    //#for R in 0..STAYING, G in 0..GROUPS
    //#let NEXT = R + LEAVING
    s_R_G = s_NEXT_G;
    //#endfor
    //#if NORM
    //#for L in 1..LOADS
    //#let BEFORE = L - 1
    mean_BEFORE = mean_L;
    factor_BEFORE = factor_L;
    //#endfor
    //#endif
  }
}
