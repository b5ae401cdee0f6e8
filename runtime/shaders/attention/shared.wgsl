// y = softmax(q · kᵀ) · v for GPUs: 64 queries, or 32, by 64 keys at a time, online softmax, tiles in
// workgroup memory. The next part of a tile is on its way from memory while one is multiplied.
//
// Workgroup: 8 x 16 x 1; grid: lq / (16 * ROWS), heads, batch. Invocation (x, y) has queries y + 16i,
// keys 4x … 4x + 3 of both halves of the 64, and words x + 8c of the result. A query that sees no key
// gives zeros. Workgroup memory, heads of 128: 30720 bytes, 31744 with HALF.

//#param ROWS: u32 // queries per invocation: 2 or 4
//#param HALF: bool = false // factors and weights are f16 in workgroup memory, and all queries stay there
//#param SHUFFLES: bool = false // rows are reduced by subgroups, which hold neighbours in x

//#if HALF
//#include "shared/half.wgsl"
//#endif
//#include "attention/logits.wgsl"
//#include "attention/slice.wgsl"
//#let ACROSS = 8 // invocations of a row
//#let DOWN = 16
//#let QUERIES = DOWN * ROWS
//#let KEYS = 64 // per step
//#let EACH = KEYS / ACROSS // keys per invocation
//#let DEPTH = 4 // vec4s of a head that are multiplied between two barriers
//#let STEPS = (WORDS + DEPTH - 1) / DEPTH
//#let STRIDE = DEPTH + 1 // from one row to the next: odd, so that neighbouring rows lie in different banks
//#let LOADED = ACROSS * DOWN / DEPTH // rows of a part that all invocations bring at once
//#let KEY_LOADS = KEYS / LOADED
//#let QUERY_LOADS = QUERIES / LOADED
//#let WEIGHT_STRIDE = KEYS / 4 + 1
//#let VALUES = 16 // values that lie in their tile at once
//#let STRIPS = (WORDS + ACROSS - 1) / ACROSS // words of the result per invocation
//#let VALUE_STRIDE = ACROSS * STRIPS
//#let QUERY_STRIDE = HALF ? STEPS * DEPTH + 1 : STRIDE
//#let KEY_PART = KEYS * STRIDE
//#let PART = HALF ? KEY_PART : KEY_PART + QUERIES * STRIDE
//#let WEIGHTS = QUERIES * WEIGHT_STRIDE
//#let TILE = 2 * PART > WEIGHTS ? 2 * PART : WEIGHTS
//#let FOUR = HALF ? "vec4<f16>" : "vec4<f32>"
//#let ROUND = HALF ? "half4" : ""
//#workgroup ACROSS, DOWN, 1

// Two parts, of keys and of queries that do not stay; once they are multiplied, the weights.
var<workgroup> tile: array<FOUR, TILE>;
var<workgroup> tile_v: array<FOUR, VALUES * VALUE_STRIDE>;
//#if HALF
var<workgroup> tile_q: array<FOUR, QUERIES * QUERY_STRIDE>;
//#endif
//#if !SHUFFLES
var<workgroup> row_values: array<f32, QUERIES * ACROSS>;
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * ACROSS + local.x;
  // Of a part, this invocation brings word load_word of rows load_row + LOADED * i.
  let load_row = thread / DEPTH;
  let load_word = thread % DEPTH;
  let row0 = wg.x * QUERIES;
  //#include "attention/keys.wgsl" LAST_ROW="row0 + QUERIES - 1u"
  //#for I in 0..ROWS
  let row_I = local.y + I * DOWN;
  var top_I = HIDDEN;
  var total_I = 0.0;
  //#for C in 0..STRIPS
  var o_C_I = vec4<f32>();
  //#endfor
  //#endfor
  //#for I in 0..QUERY_LOADS
  let query_I = q_start + min(row0 + load_row + I * LOADED, params.lq - 1u) * q_step;
  //#if HALF
  for (var word = load_word; word < STEPS * DEPTH; word = word + DEPTH) {
    tile_q[(load_row + I * LOADED) * QUERY_STRIDE + word] = half4(q_slice(query_I, word));
  }
  //#else
  var next_q_I = vec4<f32>();
  //#endif
  //#endfor
  //#for I in 0..KEY_LOADS
  var next_k_I = vec4<f32>();
  //#endfor
  //#for C in 0..STRIPS
  var next_v_C = vec4<f32>();
  //#endfor
  for (var key0 = 0u; key0 < end; key0 = key0 + KEYS) {
    //#for I in 0..KEY_LOADS
    let key_start_I = kv_start + min(key0 + load_row + I * LOADED, end - 1u) * kv_step;
    //#endfor
    //#include "attention/shared_fetch.wgsl" WORD="load_word"
    //#include "attention/shared_place.wgsl" PLACE="load_word"
    workgroupBarrier();
    //#for I in 0..ROWS, J in 0..EACH
    var d_I_J = 0.0;
    //#endfor
    for (var step = 0u; step < STEPS; step = step + 1u) {
      let part = (step % 2u) * PART;
      if (step + 1u < STEPS) {
        let word = (step + 1u) * DEPTH + load_word;
        //#include "attention/shared_fetch.wgsl" WORD=word
      }
      for (var word = 0u; word < DEPTH; word = word + 1u) {
        //#for J in 0..EACH
        let k_J = vec4<f32>(tile[part + (local.x + J * ACROSS) * STRIDE + word]);
        //#endfor
        //#for I in 0..ROWS
        //#if HALF
        let q_I = vec4<f32>(tile_q[row_I * QUERY_STRIDE + step * DEPTH + word]);
        //#else
        let q_I = tile[part + KEY_PART + row_I * STRIDE + word];
        //#endif
        //#for P in x y z w, J in 0..EACH
        d_I_J = fma(q_I.P, k_J.P, d_I_J);
        //#endfor
        //#endfor
      }
      if (step + 1u < STEPS) {
        let place = (PART - part) + load_word;
        //#include "attention/shared_place.wgsl" PLACE=place
      }
      workgroupBarrier();
    }

    //#include "attention/shared_values.wgsl" VALUE="key0 + thread / ACROSS"
    let key = key0 + 4u * local.x;
    //#for I in 0..ROWS
    //#for J in 0..EACH
    //#let AHEAD = J / 4 * (KEYS / 2) + J % 4
    let l_I_J = logit(d_I_J * params.scale, row0 + row_I, min(key + AHEAD, end - 1u), bias_start, length, last_bias);
    let s_I_J = select(HIDDEN, l_I_J, key + AHEAD < end);
    //#endfor
    let own_I = max(max(max(s_I_0, s_I_1), max(s_I_2, s_I_3)), max(max(s_I_4, s_I_5), max(s_I_6, s_I_7)));
    //#endfor
    //#if SHUFFLES
    //#for I in 0..ROWS
    let pair_I = max(own_I, subgroupShuffleXor(own_I, 1u));
    let fours_I = max(pair_I, subgroupShuffleXor(pair_I, 2u));
    let next_I = max(top_I, max(fours_I, subgroupShuffleXor(fours_I, 4u)));
    //#endfor
    //#else
    //#for I in 0..ROWS
    row_values[row_I * ACROSS + local.x] = own_I;
    //#endfor
    workgroupBarrier();
    //#for I in 0..ROWS
    var next_I = top_I;
    //#for X in 0..ACROSS
    next_I = max(next_I, row_values[row_I * ACROSS + X]);
    //#endfor
    //#endfor
    //#endif
    //#for I in 0..ROWS
    let fade_I = exp2(max(top_I - next_I, -200.0));
    top_I = next_I;
    total_I = total_I * fade_I;
    //#for C in 0..STRIPS
    o_C_I = o_C_I * fade_I;
    //#endfor
    //#for H in 0..EACH / 4
    //#let A = 4 * H
    //#let B = 4 * H + 1
    //#let C = 4 * H + 2
    //#let D = 4 * H + 3
    let s_I_of_H = vec4<f32>(s_I_A, s_I_B, s_I_C, s_I_D);
    let p_I_H = FOUR(select(vec4<f32>(), exp2(s_I_of_H - next_I), s_I_of_H > vec4<f32>(HIDDEN_BELOW)));
    let w_I_H = vec4<f32>(p_I_H);
    total_I = total_I + (w_I_H.x + w_I_H.y + (w_I_H.z + w_I_H.w));
    tile[row_I * WEIGHT_STRIDE + H * ACROSS + local.x] = p_I_H;
    //#endfor
    //#endfor
    //#for C in 0..STRIPS
    tile_v[thread / ACROSS * VALUE_STRIDE + local.x + C * ACROSS] = ROUND(next_v_C);
    //#endfor
    workgroupBarrier();
    let parts = min(KEYS / VALUES, (end - key0 + VALUES - 1u) / VALUES);
    for (var part = 0u; part < parts; part = part + 1u) {
      if (part + 1u < parts) {
        let value = key0 + (part + 1u) * VALUES + thread / ACROSS;
        //#include "attention/shared_values.wgsl" VALUE=value
      }
      for (var word = 0u; word < VALUES / 4u; word = word + 1u) {
        //#for I in 0..ROWS
        let p_I = vec4<f32>(tile[row_I * WEIGHT_STRIDE + part * (VALUES / 4u) + word]);
        //#endfor
        //#for J in 0..4, C in 0..STRIPS
        let v_J_C = vec4<f32>(tile_v[(4u * word + J) * VALUE_STRIDE + local.x + C * ACROSS]);
        //#for I in 0..ROWS
        o_C_I = fma(vec4<f32>(p_I[J]), v_J_C, o_C_I);
        //#endfor
        //#endfor
      }
      workgroupBarrier();
      if (part + 1u < parts) {
        //#for C in 0..STRIPS
        tile_v[thread / ACROSS * VALUE_STRIDE + local.x + C * ACROSS] = ROUND(next_v_C);
        //#endfor
        workgroupBarrier();
      }
    }
  }
  //#if SHUFFLES
  //#for I in 0..ROWS
  let two_I = total_I + subgroupShuffleXor(total_I, 1u);
  let four_I = two_I + subgroupShuffleXor(two_I, 2u);
  let sum_I = four_I + subgroupShuffleXor(four_I, 4u);
  //#endfor
  //#else
  //#for I in 0..ROWS
  row_values[row_I * ACROSS + local.x] = total_I;
  //#endfor
  workgroupBarrier();
  //#for I in 0..ROWS
  let sum_I = row_values[row_I * ACROSS]
    //#for X in 1..ACROSS
    + row_values[row_I * ACROSS + X]
    //#endfor
    ;
  //#endfor
  //#endif
  //#for I in 0..ROWS
  if (row0 + row_I < params.lq) {
    let norm = select(0.0, 1.0 / sum_I, sum_I > 0.0);
    let at = q_start + (row0 + row_I) * q_step + local.x;
    //#for C in 0..STRIPS
    if (C * ACROSS + local.x < WORDS) { y_put(at + C * ACROSS, o_C_I * norm); }
    //#endfor
  }
  //#endfor
}
