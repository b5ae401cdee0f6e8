// y = act([cache; x] ∗ weight + bias) + residual on matrix units: an implicit matrix product of
// pixels by channels. Pixels are gathered tap by tap while a tile is filled, so that no matrix of
// them is ever in memory. Factors are rounded to f16 where the unit takes f16, sums are f32.
//
// Taps on the zero frames before the cache are skipped. Workgroup: SUBGROUPS; grid: pixels of
// a frame / TILE_ROWS, channels / TILE_COLUMNS, batch * y_frames. While a subgroup multiplies one
// tile, its invocations load the next one, which stays in registers until the tile may be
// overwritten, or goes into a second one.

//#param TILES: u32 = 1 // of each factor in workgroup memory; with 2 one is filled while the other is multiplied

//#include "conv/problem.wgsl"
//#include "matrix/tile.wgsl" LAYOUT=nk
//#include "conv/taps.wgsl"

var<workgroup> origins: array<vec3<u32>, TILE_ROWS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let word = thread % DEPTH;
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let row_words = tap_count() * params.words;
  let skipped = (max(params.front, time) - time) * params.k_height * params.k_width * params.words;
  let steps = (max(row_words, skipped) - skipped + PER_WORD - 1u) / PER_WORD;
  let p0 = wg.x * TILE_ROWS;
  let n0 = wg.y * TILE_COLUMNS;
  find_taps(thread, batch, time);
  for (var row = thread; row < TILE_ROWS; row = row + THREADS) {
    origins[row] = origin_of(min(p0 + row, plane - 1u));
  }
  workgroupBarrier();
  //#for I in 0..ROW_UNITS, J in 0..COLUMN_UNITS
  var s_I_J = RESULT();
  //#endfor
  //#for I in 0..A_LOADS
  var next_a_I = vec4<ELEMENT>();
  //#endfor
  //#for I in 0..B_LOADS
  var next_b_I = vec4<ELEMENT>();
  //#endfor
  var k = skipped + word * PER_WORD;
  //#for E in 0..PER_WORD
  var place_E = place_of(k + E);
  //#endfor
  //#include "conv/matrix_fetch.wgsl"
  //#if TILES == 1
  for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
    //#include "conv/matrix_store.wgsl" A_AT="0u", B_AT="0u"
    workgroupBarrier();
    if (k0 + DEPTH < steps) {
      //#include "conv/matrix_fetch.wgsl"
    }
    //#include "matrix/multiply.wgsl" LAYOUT=nk
    workgroupBarrier();
  }
  //#else
  //#include "conv/matrix_store.wgsl" A_AT="0u", B_AT="0u"
  workgroupBarrier();
  for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
    let full = k0 / DEPTH % 2u;
    if (k0 + DEPTH < steps) {
      //#include "conv/matrix_fetch.wgsl"
    }
    //#include "matrix/multiply.wgsl" LAYOUT=nk, A_AT="full * A_TILE", B_AT="full * B_TILE"
    //#include "conv/matrix_store.wgsl" A_AT="(1u - full) * A_TILE", B_AT="(1u - full) * B_TILE"
    workgroupBarrier();
  }
  //#endif
  //#for I in 0..ROW_UNITS, S in 0..STRIPS
  //#for J in 0..STRIP_UNITS
  //#let FROM = S * STRIP_UNITS + J
  subgroupMatrixStore<row_major>(&tile_sums, subgroup * UNIT_M * SUM_STEP + J * UNIT_N / 4u, s_I_FROM, SUM_STEP);
  //#endfor
  workgroupBarrier();
  for (var item = thread; item < SUBGROUPS * PART; item = item + THREADS) {
    let sum = sum_of(item, I * UNIT_M, S * STRIP);
    if (p0 + sum.row < plane) {
      store(first + p0 + sum.row, n0 + sum.column, sum.value + biases(n0 + sum.column));
    }
  }
  workgroupBarrier();
  //#endfor
}
