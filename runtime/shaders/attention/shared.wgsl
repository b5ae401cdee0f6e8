// y = softmax(q · kᵀ) · v for GPUs: 64 queries, or 32, by 64 keys at a time, online softmax, tiles in
// workgroup memory. The next part of a tile is on its way from memory while one is multiplied.
//
// Workgroup: ACROSS x DOWN x 1; grid: lq / (DOWN * ROWS), heads, batch. Invocation (x, y) has queries
// y + DOWN * i, keys 4x … 4x + 3 of both halves of the 64, or of all 64 if ACROSS is 16, and words
// x + ACROSS * c of the result. A query that sees no key gives zeros. Workgroup memory, heads of 128 and
// 64 queries: 27648 bytes, and 256 for each of PARTS above 1.
//
// Tiles have a block for each key, query or word of a value that an invocation reads at once. The block's
// index is a constant, so that one check of bounds serves all blocks, and their distance stands in the
// instruction.

//#param ACROSS: u32 // invocations of a row: 8, or 16, which halves the results that an invocation keeps
//#param ROWS: u32 // queries per invocation: 2 or 4
//#param SHUFFLED: u32 // exchanges by which subgroups reduce rows: they hold 2^SHUFFLED neighbours in x
//#param PARTS: u32 // of a row, which workgroup memory brings together: ACROSS / 2^SHUFFLED

//#include "attention/logits.wgsl"
//#include "attention/slice.wgsl"
//#let DOWN = 128 / ACROSS
//#let QUERIES = DOWN * ROWS
//#let KEYS = 64 // per step
//#let EACH = KEYS / ACROSS // keys per invocation
//#let FOURS = EACH / 4
//#let FOURS_KEYS = 4 * ACROSS // from one four of them to the next
//#let DEPTH = 4 // vec4s of a head that are multiplied between two barriers
//#let STEPS = (WORDS + DEPTH - 1) / DEPTH
//#let STRIDE = DEPTH + 1 // from one row to the next: odd, so that neighbouring rows lie in different banks
//#let LOADED = ACROSS * DOWN / DEPTH // rows of a part that all invocations bring at once
//#let KEY_LOADS = KEYS / LOADED
//#let QUERY_LOADS = QUERIES / LOADED
//#let WEIGHT_STRIDE = KEYS / 4 + 1
//#let VALUES = DOWN // that lie in their tile at once, each brought by a row of invocations
//#let STRIPS = (WORDS + ACROSS - 1) / ACROSS // words of the result per invocation
//#let KEY_BLOCK = 2 * ACROSS * STRIDE
//#let STRIP = VALUES / 4 * ACROSS // words that a strip has in a block
//#let VALUE_BLOCK = (STRIPS + FOURS - 1) / FOURS * STRIP
//#let READ_BLOCK = KEY_BLOCK > VALUE_BLOCK ? KEY_BLOCK : VALUE_BLOCK
//#let WEIGHT_BLOCK = DOWN * WEIGHT_STRIDE
//#workgroup ACROSS, DOWN, 1

// Two parts of keys, then values; two parts of queries, then weights.
var<workgroup> tile_kv: array<array<vec4<f32>, READ_BLOCK>, EACH>;
var<workgroup> tile_qw: array<array<vec4<f32>, WEIGHT_BLOCK>, ROWS>;
//#let PART = ACROSS / PARTS
//#if PARTS > 1
var<workgroup> row_values: array<f32, QUERIES * PARTS>;
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
  var next_q_I = vec4<f32>();
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
    //#include "attention/shared_place.wgsl" PART="0u"
    workgroupBarrier();
    //#for I in 0..ROWS, J in 0..EACH
    var d_I_J = 0.0;
    //#endfor
    for (var step = 0u; step < STEPS; step = step + 1u) {
      let part = step % 2u;
      if (step + 1u < STEPS) {
        let word = (step + 1u) * DEPTH + load_word;
        //#include "attention/shared_fetch.wgsl" WORD=word
      }
      for (var word = 0u; word < DEPTH; word = word + 1u) {
        let at_k = (part * ACROSS + local.x) * STRIDE + word;
        //#for J in 0..EACH
        let k_J = tile_kv[J][at_k];
        //#endfor
        let at_q = (part * DOWN + local.y) * STRIDE + word;
        //#for I in 0..ROWS
        let q_I = tile_qw[I][at_q];
        //#for P in x y z w, J in 0..EACH
        d_I_J = fma(q_I.P, k_J.P, d_I_J);
        //#endfor
        //#endfor
      }
      if (step + 1u < STEPS) {
        //#include "attention/shared_place.wgsl" PART="(1u - part)"
      }
      workgroupBarrier();
    }

    //#include "attention/shared_values.wgsl" FIRST=key0
    let key = key0 + 4u * local.x;
    //#for I in 0..ROWS
    //#for J in 0..EACH
    //#let AHEAD = J / 4 * FOURS_KEYS + J % 4
    let l_I_J = logit(d_I_J * params.scale, row0 + row_I, min(key + AHEAD, end - 1u), bias_start, length, last_bias);
    let s_I_J = select(HIDDEN, l_I_J, key + AHEAD < end);
    //#endfor
    var own_I = max(max(s_I_0, s_I_1), max(s_I_2, s_I_3));
    //#if FOURS == 2
    own_I = max(own_I, max(max(s_I_4, s_I_5), max(s_I_6, s_I_7)));
    //#endif
    //#endfor
    //#for S in 0..SHUFFLED, I in 0..ROWS
    own_I = max(own_I, subgroupShuffleXor(own_I, 1u << S));
    //#endfor
    //#if PARTS > 1
    if (local.x % PART == 0u) {
      //#for I in 0..ROWS
      row_values[row_I * PARTS + local.x / PART] = own_I;
      //#endfor
    }
    workgroupBarrier();
    //#for I in 0..ROWS, X in 0..PARTS
    own_I = max(own_I, row_values[row_I * PARTS + X]);
    //#endfor
    //#endif
    //#for I in 0..ROWS
    let next_I = max(top_I, own_I);
    let fade_I = exp2(max(top_I - next_I, -200.0));
    top_I = next_I;
    total_I = total_I * fade_I;
    //#for C in 0..STRIPS
    o_C_I = o_C_I * fade_I;
    //#endfor
    //#for H in 0..FOURS
    //#let A = 4 * H
    //#let B = 4 * H + 1
    //#let C = 4 * H + 2
    //#let D = 4 * H + 3
    let s_I_of_H = vec4<f32>(s_I_A, s_I_B, s_I_C, s_I_D);
    let p_I_H = select(vec4<f32>(), exp2(s_I_of_H - next_I), s_I_of_H > vec4<f32>(HIDDEN_BELOW));
    total_I = total_I + (p_I_H.x + p_I_H.y + (p_I_H.z + p_I_H.w));
    tile_qw[I][local.y * WEIGHT_STRIDE + H * ACROSS + local.x] = p_I_H;
    //#endfor
    //#endfor
    //#include "attention/shared_put_values.wgsl"
    workgroupBarrier();
    let parts = min(KEYS / VALUES, (end - key0 + VALUES - 1u) / VALUES);
    for (var part = 0u; part < parts; part = part + 1u) {
      if (part + 1u < parts) {
        //#include "attention/shared_values.wgsl" FIRST="(key0 + (part + 1u) * VALUES)"
      }
      for (var word = 0u; word < VALUES / 4u; word = word + 1u) {
        let at_p = local.y * WEIGHT_STRIDE + part * (VALUES / 4u) + word;
        let at_v = word * ACROSS + local.x;
        //#for I in 0..ROWS
        let p_I = tile_qw[I][at_p];
        //#endfor
        //#for J in 0..4, C in 0..STRIPS
        //#let BLOCK = J * FOURS + C % FOURS
        //#let AHEAD = C / FOURS * STRIP
        let v_J_C = tile_kv[BLOCK][AHEAD + at_v];
        //#for I in 0..ROWS
        o_C_I = fma(vec4<f32>(p_I[J]), v_J_C, o_C_I);
        //#endfor
        //#endfor
      }
      workgroupBarrier();
      if (part + 1u < parts) {
        //#include "attention/shared_put_values.wgsl"
        workgroupBarrier();
      }
    }
  }
  //#for S in 0..SHUFFLED, I in 0..ROWS
  total_I = total_I + subgroupShuffleXor(total_I, 1u << S);
  //#endfor
  //#if PARTS > 1
  if (local.x % PART == 0u) {
    //#for I in 0..ROWS
    row_values[row_I * PARTS + local.x / PART] = total_I;
    //#endfor
  }
  workgroupBarrier();
  //#for I in 0..ROWS
  total_I = row_values[row_I * PARTS];
  //#for X in 1..PARTS
  total_I = total_I + row_values[row_I * PARTS + X];
  //#endfor
  //#endfor
  //#endif
  //#for I in 0..ROWS
  if (row0 + row_I < params.lq) {
    let norm = select(0.0, 1.0 / total_I, total_I > 0.0);
    let at = q_start + (row0 + row_I) * q_step + local.x;
    //#for C in 0..STRIPS
    if (C * ACROSS + local.x < WORDS) { y_put(at + C * ACROSS, o_C_I * norm); }
    //#endfor
  }
  //#endfor
}
