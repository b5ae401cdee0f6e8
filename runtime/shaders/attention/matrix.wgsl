// y = softmax(q · kᵀ) · v on matrix units: 64 queries, or 128, by 32 keys, or 16, at a time. Queries,
// keys, values and weights are of the unit's type, scores, softmax and sums f32. Values are on their
// way from memory while scores are computed, and the next keys while values are multiplied.
//
// Workgroup: four subgroups, each with OWN_ROWS queries and their sums as matrices; grid: lq / ROWS,
// heads, batch. A query that sees no key gives zeros.
//
// The online softmax cannot scale rows of a matrix. So a row's reference stays where it is until a
// logit exceeds it by more than 8 (in powers of two), and only then do the sums go through
// workgroup memory to be scaled: weights up to 256 take its place, and after the first few steps
// this hardly ever happens.

//#include "matrix/unit.wgsl"
//#include "attention/logits.wgsl"
//#include "attention/slice.wgsl"
//#param OWN_ROWS: u32 = 16 // queries of a subgroup: 16 or 32
//#param KEYS: u32 = 32 // per step, 16 or 32; so many elements of the result, a strip, go through memory at a time
//#let ROWS = SUBGROUPS * OWN_ROWS // of the workgroup
//#let STRIP_WORDS = KEYS / 4 // vec4s of a row of scores and weights
//#let SCORE_STEP = STRIP_WORDS + 1 // from one row to the next: padded, so that rows lie in different banks
//#let WEIGHT_STEP = STRIP_WORDS + 2
//#let DEPTH = UNIT_K > 16 ? UNIT_K : 16
//#let DIM = (HEAD_DIM + DEPTH - 1) / DEPTH * DEPTH // elements of a head in the tiles: whole matrices
//#let DIM_WORDS = DIM / 4
//#let TILE_STEP = DIM_WORDS + 2 // vec4s from one key or value to the next
//#let STRIPS = (DIM + KEYS - 1) / KEYS
//#let ROW_UNITS = OWN_ROWS / UNIT_M // matrices along the queries of a subgroup, along a head as depth, and as columns
//#let DEPTH_UNITS = DIM / UNIT_K
//#let COLUMN_UNITS = DIM / UNIT_N
//#let PER_ROW = 4 // invocations that share a row in the softmax; neighbours, so that they are in one subgroup
//#let SHARE = STRIP_WORDS / PER_ROW // words of a row for each of them
//#let FACTOR = ELEMENT == f16 ? half4 : "vec4<f32>"
//#let PASSES = ROWS * PER_ROW / THREADS // rows that each invocation has a share of
//#let ROWS_AT_ONCE = THREADS / PER_ROW
//#let LOADS = (KEYS * DIM_WORDS + THREADS - 1) / THREADS // words of keys that an invocation brings
// Of values it brings the words of four keys, and turns them: what a matrix needs of a column lies together then.
//#let FOURS = KEYS / 4 * DIM_WORDS
//#let TURNS = (FOURS + THREADS - 1) / THREADS
//#let BROUGHT = 4 * TURNS
//#let VALUE_STEP = KEYS / 4 + 2 // vec4s from one element of the values to the next
//#let KEY_TILE = KEYS * TILE_STEP
//#let VALUE_TILE = DIM * VALUE_STEP
//#let TILE = KEY_TILE > VALUE_TILE ? KEY_TILE : VALUE_TILE

// Weights may grow to 2 to the power of this before the sums are scaled down; f16 holds them.
const SLACK = 8.0;

var<workgroup> tile: array<vec4<ELEMENT>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STEP>;
var<workgroup> weights: array<vec4<ELEMENT>, ROWS * WEIGHT_STEP>;
var<workgroup> row_factor: array<f32, ROWS>;
var<workgroup> must_scale: atomic<u32>;

// Over the four invocations of a row.
fn row_max(own: f32) -> f32 {
  let pair = max(own, subgroupShuffleXor(own, 1u));
  return max(pair, subgroupShuffleXor(pair, 2u));
}
fn row_sum(own: f32) -> f32 {
  let pair = own + subgroupShuffleXor(own, 1u);
  return pair + subgroupShuffleXor(pair, 2u);
}

fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let row0 = wg.x * ROWS;
  // Where the subgroup's matrices begin in scores and weights.
  //#for I in 0..ROW_UNITS
  let score_row_I = (subgroup * OWN_ROWS + I * UNIT_M) * SCORE_STEP;
  let weight_row_I = (subgroup * OWN_ROWS + I * UNIT_M) * WEIGHT_STEP;
  //#endfor
  //#include "attention/keys.wgsl" LAST_ROW="row0 + ROWS - 1u"

  // Queries become matrices, strip by strip.
  //#for S in 0..STRIPS
  for (var item = thread; item < ROWS * STRIP_WORDS; item = item + THREADS) {
    let row = item / STRIP_WORDS;
    let word = item % STRIP_WORDS;
    let start = q_start + min(row0 + row, params.lq - 1u) * q_step;
    weights[row * WEIGHT_STEP + word] = FACTOR(q_slice(start, S * STRIP_WORDS + word));
  }
  workgroupBarrier();
  //#let FROM = S * KEYS / UNIT_K
  //#let TO = (S + 1) * KEYS < DIM ? (S + 1) * KEYS / UNIT_K : DEPTH_UNITS
  //#for I in 0..ROW_UNITS, C in FROM..TO
  let q_I_C = subgroupMatrixLoad<LEFT, row_major>(&weights, weight_row_I + (C - FROM) * UNIT_K / 4u, WEIGHT_STEP);
  //#endfor
  workgroupBarrier();
  //#endfor

  //#for P in 0..PASSES
  var top_P = LOWEST;
  var total_P = 0.0;
  //#endfor
  //#for I in 0..ROW_UNITS, J in 0..COLUMN_UNITS
  var o_I_J = RESULT();
  //#endfor
  //#for L in 0..LOADS
  let brought_L = thread + L * THREADS;
  let key_L = brought_L / DIM_WORDS;
  let word_L = brought_L % DIM_WORDS;
  //#endfor
  //#for T in 0..TURNS
  let four_T = (thread + T * THREADS) / DIM_WORDS;
  let turned_T = (thread + T * THREADS) % DIM_WORDS;
  //#endfor
  //#for L in 0..BROUGHT
  var next_L = vec4<ELEMENT>();
  //#endfor
  if (end > 0u) {
    //#include "attention/matrix_fetch.wgsl" FROM="0u"
  }
  for (var key0 = 0u; key0 < end; key0 = key0 + KEYS) {
    //#include "attention/matrix_place.wgsl"
    if (thread == 0u) { atomicStore(&must_scale, 0u); }
    workgroupBarrier();
    //#for T in 0..TURNS, J in 0..4
    //#let L = 4 * T + J
    next_L = FACTOR(v_slice(kv_start + min(key0 + 4u * four_T + J, end - 1u) * kv_step, turned_T));
    //#endfor

    // Scores. Loops over matrices, so that software adapters compile them in seconds; compilers of
    // GPUs unroll them.
    //#let KEY_UNITS = KEYS / UNIT_N
    for (var j = 0u; j < KEY_UNITS; j = j + 1u) {
      //#for I in 0..ROW_UNITS
      var s_I = RESULT();
      //#endfor
      //#for C in 0..DEPTH_UNITS
      let k_C = subgroupMatrixLoad<RIGHT, col_major>(&tile, j * UNIT_N * TILE_STEP + C * UNIT_K / 4u, TILE_STEP);
      //#for I in 0..ROW_UNITS
      s_I = subgroupMatrixMultiplyAccumulate(q_I_C, k_C, s_I);
      //#endfor
      //#endfor
      //#for I in 0..ROW_UNITS
      subgroupMatrixStore<row_major>(&scores, score_row_I + j * UNIT_N / 4u, s_I, SCORE_STEP);
      //#endfor
    }
    workgroupBarrier();
    //#for T in 0..TURNS
    //#let A = 4 * T
    //#let B = 4 * T + 1
    //#let C = 4 * T + 2
    //#let D = 4 * T + 3
    //#let IS_WHOLE = FOURS == TURNS * THREADS
    if (IS_WHOLE || four_T < KEYS / 4u) {
      //#for E in 0..4
      tile[(4u * turned_T + E) * VALUE_STEP + four_T] = vec4<ELEMENT>(next_A[E], next_B[E], next_C[E], next_D[E]);
      //#endfor
    }
    //#endfor

    // Softmax: four invocations have eight scores each of a row.
    //#for P in 0..PASSES
    {
      let row = thread / PER_ROW + P * ROWS_AT_ONCE;
      //#for H in 0..SHARE
      let word_H = thread % PER_ROW + H * PER_ROW;
      let d_H = scores[row * SCORE_STEP + word_H];
      let key_H = key0 + 4u * word_H;
      //#for E in 0..4
      let seen_H_E = min(key_H + E, end - 1u);
      let is_seen_H_E = sees(row0 + row, seen_H_E);
      let s_H_E = logit(d_H[E] * params.scale, row0 + row, seen_H_E, is_seen_H_E, bias_start, length, last_bias);
      let l_H_E = select(HIDDEN, s_H_E, key_H + E < end);
      //#endfor
      let l_H = vec4<f32>(l_H_0, l_H_1, l_H_2, l_H_3);
      //#endfor
      //#if SHARE == 2
      let l = max(l_0, l_1);
      //#else
      let l = l_0;
      //#endif
      let best = row_max(max(max(l.x, l.y), max(l.z, l.w)));
      let is_first = top_P == LOWEST;
      let is_over = best > top_P + SLACK;
      let fade = select(1.0, exp2(max(top_P - best, -200.0)), is_over && !is_first);
      top_P = select(top_P, best, is_over);
      //#for H in 0..SHARE
      let w_H = vec4<ELEMENT>(exp2(l_H - top_P));
      weights[row * WEIGHT_STEP + word_H] = w_H;
      //#endfor
      //#if SHARE == 2
      let w = vec4<f32>(w_0) + vec4<f32>(w_1);
      //#else
      let w = vec4<f32>(w_0);
      //#endif
      total_P = total_P * fade + (w.x + w.y + (w.z + w.w));
      row_factor[row] = fade;
      if (fade < 1.0) { atomicStore(&must_scale, 1u); }
    }
    //#endfor

    if (workgroupUniformLoad(&must_scale) != 0u) {
      //#for S in 0..STRIPS
      //#include "attention/matrix_strip.wgsl"
      workgroupBarrier();
      for (var item = thread; item < ROWS * STRIP_WORDS; item = item + THREADS) {
        let row = item / STRIP_WORDS;
        let at = row * SCORE_STEP + item % STRIP_WORDS;
        scores[at] = scores[at] * row_factor[row];
      }
      workgroupBarrier();
      //#for I in 0..ROW_UNITS, J in FROM..TO
      o_I_J = subgroupMatrixLoad<RESULT, row_major>(&scores, score_row_I + (J - FROM) * UNIT_N / 4u, SCORE_STEP);
      //#endfor
      workgroupBarrier();
      //#endfor
    }

    let next0 = key0 + KEYS;
    if (next0 < end) {
      //#include "attention/matrix_fetch.wgsl" FROM=next0
    }
    //#let KEY_DEPTHS = KEYS / UNIT_K
    for (var c = 0u; c < KEY_DEPTHS; c = c + 1u) {
      //#for I in 0..ROW_UNITS
      let w_I = subgroupMatrixLoad<LEFT, row_major>(&weights, weight_row_I + c * UNIT_K / 4u, WEIGHT_STEP);
      //#endfor
      //#for J in 0..COLUMN_UNITS
      let v_J = subgroupMatrixLoad<RIGHT, col_major>(&tile, J * UNIT_N * VALUE_STEP + c * UNIT_K / 4u, VALUE_STEP);
      //#for I in 0..ROW_UNITS
      o_I_J = subgroupMatrixMultiplyAccumulate(w_I, v_J, o_I_J);
      //#endfor
      //#endfor
    }
    workgroupBarrier();
  }

  //#for P in 0..PASSES
  let sum_P = row_sum(total_P);
  row_factor[thread / PER_ROW + P * ROWS_AT_ONCE] = select(0.0, 1.0 / sum_P, sum_P > 0.0);
  //#endfor
  //#for S in 0..STRIPS
  //#include "attention/matrix_strip.wgsl"
  workgroupBarrier();
  for (var item = thread; item < ROWS * STRIP_WORDS; item = item + THREADS) {
    let row = item / STRIP_WORDS;
    let word = S * STRIP_WORDS + item % STRIP_WORDS;
    if (row0 + row < params.lq && word < WORDS) {
      y_put(q_start + (row0 + row) * q_step + word, scores[row * SCORE_STEP + item % STRIP_WORDS] * row_factor[row]);
    }
  }
  workgroupBarrier();
  //#endfor
}
