// y = softmax(q · kᵀ) · v for software adapters: online softmax in named registers, no workgroup
// memory.
//
// Workgroup: 8 x 1 x 1, queries of one head, so that all read the same keys at the same time; grid:
// lq / (8 * ROWS), heads, batch; invocation x has queries x + 8r. A query that sees no key gives
// zeros.

//#param ROWS: u32 // queries per invocation: software adapters pay for loads of keys and values, not for registers
//#param MOVED: u32 = 4 // words at most that are loaded or stored at once: fewer are shorter code, and take longer
//#param BROADCASTS: bool // lanes load one word of a key or value each and broadcast it: needs subgroups of exactly 8

//#include "attention/logits.wgsl"
//#let LANES = 8
//#let LOADS = (WORDS + LANES - 1) / LANES // words of a key that an invocation loads
//#let UNROLLED = HEAD_DIM <= 64 // longer code would not fit the first cache
//#let SLOTS = ROWS * WORDS
//#let LOOPS = SLOTS > 8 // over words that are loaded or stored: half the time to compile, 1.05 times that to run
//#let QUARTERS = WORDS % 4 == 0 ? 4 : WORDS % 2 == 0 ? 2 : 1
//#let STEP = MOVED == 16 && WORDS % 16 == 0 ? 16 : MOVED == 16 && WORDS % 8 == 0 ? 8 : QUARTERS
//#let BLOCK = UNROLLED ? (HEAD_DIM <= 32 ? 4 : 2) : 8 // keys between two corrections of the sums for a new maximum
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let row0 = wg.x * LANES * ROWS;
  let row = row0 + local.x;
  //#include "attention/keys.wgsl" LAST_ROW="row0 + LANES * ROWS - 1u"
  //#for R in 0..ROWS
  var top_R = LOWEST;
  var total_R = 0.0;
  //#endfor
  //#for S in 0..SLOTS
  var q_S = vec4<f32>();
  var o_S = vec4<f32>();
  //#endfor
  //#if LOOPS
  // Queries enter the first slots, the last query first, and results leave from there: software adapters compile a
  // branch for every element that a lane loads or stores, which would take long for all slots.
  let slots = min(ROWS, (params.lq - row0 + LANES - 1u) / LANES) * WORDS;
  //#let MOVING = SLOTS - STEP
  for (var slot = slots; slot > 0u; slot = slot - STEP) {
    //#for N in 0..MOVING
    //#let S = SLOTS - 1 - N
    //#let BEFORE = S - STEP
    q_S = q_BEFORE;
    //#endfor
    let at = q_start + min(row + (slot - STEP) / WORDS * LANES, params.lq - 1u) * q_step + (slot - STEP) % WORDS;
    //#for S in 0..STEP
    q_S = q_at(at + S) * params.scale;
    //#endfor
  }
  //#else
  //#for R in 0..ROWS
  let start_R = q_start + min(row + R * LANES, params.lq - 1u) * q_step;
  //#for C in 0..WORDS
  //#let S = R * WORDS + C
  q_S = q_at(start_R + C) * params.scale;
  //#endfor
  //#endfor
  //#endif
  for (var key0 = 0u; key0 < end; key0 = key0 + BLOCK) {
    //#if UNROLLED
    //#for I in 0..BLOCK
    let key_I = min(key0 + I, end - 1u);
    let at_I = kv_start + key_I * kv_step;
    //#include "attention/registers_load.wgsl" X=k, AT=at_I
    //#endfor
    //#let LOGITS = BLOCK == 4 ? "vec4<f32>" : "vec2<f32>" // of a query with the keys
    //#for R in 0..ROWS
    var d_R = LOGITS();
    //#endfor
    //#for C in 0..WORDS
    //#for I in 0..BLOCK
    //#include "attention/registers_word.wgsl" X=k, AT=at_I
    let k_C_I = WORD;
    //#endfor
    //#for P in x y z w
    //#let KEYS = BLOCK == 4 ? "vec4<f32>(k_C_0.P, k_C_1.P, k_C_2.P, k_C_3.P)" : "vec2<f32>(k_C_0.P, k_C_1.P)"
    let k_C_P = KEYS;
    //#for R in 0..ROWS
    //#let S = R * WORDS + C
    d_R = fma(LOGITS(q_S.P), k_C_P, d_R);
    //#endfor
    //#endfor
    //#endfor
    //#for R in 0..ROWS, I in 0..BLOCK
    let row_R_I = row + R * LANES;
    let logit_R_I = logit(d_R[I], row_R_I, key_I, sees(row_R_I, key_I), bias_start, length, last_bias);
    var s_R_I = select(HIDDEN, logit_R_I, key0 + I < end);
    //#endfor
    //#else
    // Logits enter the last slot, the first in.
    //#let LAST = BLOCK - 1
    let stop = min(key0 + BLOCK, end);
    //#for R in 0..ROWS, I in 0..BLOCK
    var s_R_I = HIDDEN;
    //#endfor
    for (var key = key0; key < stop; key = key + 1u) {
      let at = kv_start + key * kv_step;
      //#for R in 0..ROWS
      var d_R = vec4<f32>();
      //#endfor
      //#include "attention/registers_load.wgsl" X=k, AT=at, I=0
      //#for C in 0..WORDS
      //#include "attention/registers_word.wgsl" X=k, AT=at, I=0
      let k_C = WORD;
      //#for R in 0..ROWS
      //#let S = R * WORDS + C
      d_R = fma(q_S, k_C, d_R);
      //#endfor
      //#endfor
      //#for R in 0..ROWS
      //#for I in 1..BLOCK
      //#let BEFORE = I - 1
      s_R_BEFORE = s_R_I;
      //#endfor
      let sum_R = d_R.x + d_R.y + (d_R.z + d_R.w);
      s_R_LAST = logit(sum_R, row + R * LANES, key, sees(row + R * LANES, key), bias_start, length, last_bias);
      //#endfor
    }
    //#endif
    //#for R in 0..ROWS
    var next_R = top_R;
    //#for I in 0..BLOCK
    next_R = max(next_R, s_R_I);
    //#endfor
    let fade_R = exp2(max(top_R - next_R, -200.0));
    var weight_R = 0.0;
    //#for I in 0..BLOCK
    s_R_I = exp2(s_R_I - next_R);
    weight_R = weight_R + s_R_I;
    //#endfor
    total_R = total_R * fade_R + weight_R;
    top_R = next_R;
    //#for C in 0..WORDS
    //#let S = R * WORDS + C
    o_S = o_S * fade_R;
    //#endfor
    //#endfor
    //#if UNROLLED
    //#for I in 0..BLOCK
    //#include "attention/registers_load.wgsl" X=v, AT=at_I
    //#endfor
    //#for C in 0..WORDS, I in 0..BLOCK
    //#include "attention/registers_word.wgsl" X=v, AT=at_I
    let v_C_I = WORD;
    //#for R in 0..ROWS
    //#let S = R * WORDS + C
    o_S = fma(vec4<f32>(s_R_I), v_C_I, o_S);
    //#endfor
    //#endfor
    //#else
    // Weights leave from the last slot, the last first.
    for (var key = stop; key > key0; key = key - 1u) {
      let at = kv_start + (key - 1u) * kv_step;
      //#include "attention/registers_load.wgsl" X=v, AT=at, I=0
      //#for C in 0..WORDS
      //#include "attention/registers_word.wgsl" X=v, AT=at, I=0
      let v_C = WORD;
      //#for R in 0..ROWS
      //#let S = R * WORDS + C
      o_S = fma(vec4<f32>(s_R_LAST), v_C, o_S);
      //#endfor
      //#endfor
      //#for R in 0..ROWS, N in 1..BLOCK
      //#let I = BLOCK - N
      //#let BEFORE = I - 1
      s_R_I = s_R_BEFORE;
      //#endfor
    }
    //#endif
  }
  //#for R in 0..ROWS
  let norm_R = select(0.0, 1.0 / total_R, total_R > 0.0);
  //#for C in 0..WORDS
  //#let S = R * WORDS + C
  o_S = o_S * norm_R;
  //#endfor
  //#endfor
  //#if LOOPS
  for (var slot = 0u; slot < slots; slot = slot + STEP) {
    let query = row + slot / WORDS * LANES;
    if (query < params.lq) {
      let at = q_start + query * q_step + slot % WORDS;
      //#for S in 0..STEP
      y_put(at + S, o_S);
      //#endfor
    }
    //#for S in 0..MOVING
    //#let NEXT = S + STEP
    o_S = o_NEXT;
    //#endfor
  }
  //#else
  //#for R in 0..ROWS
  if (row + R * LANES < params.lq) {
    //#for C in 0..WORDS
    //#let S = R * WORDS + C
    y_put(start_R + C, o_S);
    //#endfor
  }
  //#endfor
  //#endif
}
