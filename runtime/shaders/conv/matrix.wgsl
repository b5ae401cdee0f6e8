// y = act([cache; x] ∗ weight + bias) + residual on matrix units: an implicit matrix product of
// pixels by channels. Pixels are gathered tap by tap while a tile is filled, so that no matrix of
// them is ever in memory. Inputs and weights are rounded to f16, sums are f32.
//
// Taps on the zero frames before the cache are skipped. Workgroup: four subgroups; grid: pixels of
// a frame / TILE_ROWS, channels / TILE_COLUMNS, batch * y_frames. While a subgroup multiplies one
// tile, its invocations load the next one.

//#include "conv/problem.wgsl"
//#include "conv/taps.wgsl"
//#include "matrix/tile.wgsl" LAYOUT=nk

var<workgroup> origins: array<vec2<i32>, TILE_ROWS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let word = thread % DEPTH;
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let taps = params.k_height * params.k_width;
  let row_words = params.k_frames * taps * params.words;
  let skipped = (max(params.front, time) - time) * taps * params.words;
  let steps = (max(row_words, skipped) - skipped + PER_WORD - 1u) / PER_WORD;
  let p0 = wg.x * TILE_ROWS;
  let n0 = wg.y * TILE_COLUMNS;
  for (var row = thread; row < TILE_ROWS; row = row + THREADS) {
    origins[row] = origin_of(min(p0 + row, plane - 1u));
  }
  workgroupBarrier();
  //#for I in 0..ROW_UNITS, J in 0..COLUMN_UNITS
  var s_I_J = RESULT();
  //#endfor
  //#for I in 0..A_LOADS
  var next_a_I = vec4<f32>();
  //#endfor
  //#for I in 0..B_LOADS
  var next_b_I = vec4<f32>();
  //#endfor
  var k = skipped + word * PER_WORD;
  //#for E in 0..PER_WORD
  var place_E = place_of(k + E);
  //#endfor
  //#include "conv/matrix_fetch.wgsl"
  for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
    //#for I in 0..A_LOADS
    tile_a[(thread / DEPTH + I * ROWS_AT_ONCE) * A_STEP + word] = half4(next_a_I);
    //#endfor
    //#for I in 0..B_LOADS
    tile_b[(thread / DEPTH + I * ROWS_AT_ONCE) * B_STEP + word] = half4(next_b_I);
    //#endfor
    workgroupBarrier();
    if (k0 + DEPTH < steps) {
      //#include "conv/matrix_fetch.wgsl"
    }
    //#include "matrix/multiply.wgsl" LAYOUT=nk
    workgroupBarrier();
  }
  //#for I in 0..ROW_UNITS
  //#for J in 0..COLUMN_UNITS
  subgroupMatrixStore<row_major>(&tile_sums, subgroup * UNIT_M * SUM_STEP + J * UNIT_N / 4u, s_I_J, SUM_STEP);
  //#endfor
  workgroupBarrier();
  for (var item = thread; item < SUBGROUPS * PART; item = item + THREADS) {
    let sum = sum_of(item, I * UNIT_M);
    if (p0 + sum.row < plane) {
      store(first + p0 + sum.row, n0 + sum.column, sum.value + biases(n0 + sum.column));
    }
  }
  workgroupBarrier();
  //#endfor
}
