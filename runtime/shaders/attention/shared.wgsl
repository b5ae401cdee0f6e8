// y = softmax(q · kᵀ) · v for GPUs: up to 128 queries by 64 or 128 keys at a time, online softmax, tiles in
// workgroup memory. The next part of a tile is on its way from memory while one is multiplied.
//
// Workgroup: ACROSS x DOWN x 1; grid: lq / (DOWN * ROWS), heads, batch. Invocation (x, y) has queries
// y + DOWN * i, keys 4x … 4x + 3 of each FOURS_KEYS, and of the result words x + ACROSS * c and, of the words that
// are too few for all invocations of a row, TAIL elements. A query that sees no key gives zeros.
//
// Tiles have a block for each key, query or word of a value that an invocation reads at once. The block's
// index is a constant, so that one check of bounds serves all blocks, and their distance stands in the
// instruction.

//#param ACROSS: u32 // invocations of a row: 8 or 16
//#param DOWN: u32 // of a column: 8 or 16
//#param ROWS: u32 // queries per invocation: 2, 4 or 8
//#param EACH: u32 // keys per invocation and step: 4 or 8
//#param SHUFFLED: u32 // exchanges by which subgroups reduce rows: they hold 2^SHUFFLED neighbours in x
//#param PARTS: u32 // of a row, which workgroup memory brings together: ACROSS / 2^SHUFFLED

//#include "attention/logits.wgsl"
//#include "attention/slice.wgsl"
//#let QUERIES = DOWN * ROWS
//#let KEYS = ACROSS * EACH // per step
//#let FOURS = EACH / 4
//#let FOURS_KEYS = 4 * ACROSS // from one four of them to the next
//#let DEPTH = 4 // vec4s of a head that are multiplied between two barriers
//#let STEPS = (WORDS + DEPTH - 1) / DEPTH
//#let STRIDE = DEPTH + 1 // from one row to the next: odd, so that neighbouring rows lie in different banks
//#let LOADED = ACROSS * DOWN / DEPTH // rows of a part that all invocations bring at once
//#let KEY_LOADS = KEYS / LOADED
//#let QUERY_LOADS = (QUERIES + LOADED - 1) / LOADED
//#let IS_PARTLY = QUERIES * KEYS > 2048 // weights are more than their tile may hold: they wait in registers
//#let CHUNK = IS_PARTLY ? 32 : KEYS // keys whose weights lie in their tile at once
//#let CHUNKS_OF_FOUR = FOURS_KEYS / 32
//#let WEIGHT_STRIDE = CHUNK / 4 + 1
//#let VALUES = DOWN // that lie in their tile at once, each brought by a row of invocations
//#let PARTS_OF_CHUNK = CHUNK / VALUES
//#let REST = WORDS % ACROSS
//#let SPREAD = (4 * REST + ACROSS - 1) / ACROSS
//#let TAIL = SPREAD == 4 ? 0 : SPREAD
//#let STRIPS = WORDS / ACROSS + SPREAD / 4 // words of the result per invocation
//#let TAIL_WIDTH = TAIL * ACROSS
//#let STRIP = VALUES / 4 * ACROSS // words that a strip has in a block
//#let KEY_BLOCK = ACROSS * STRIDE
//#let VALUE_BLOCK = (STRIPS + FOURS - 1) / FOURS * STRIP
//#let READ_BLOCK = KEY_BLOCK > VALUE_BLOCK ? KEY_BLOCK : VALUE_BLOCK
//#workgroup ACROSS, DOWN, 1

// Keys, then values; queries, then weights.
var<workgroup> tile_kv: array<array<vec4<f32>, READ_BLOCK>, EACH>;
//#let WEIGHT_BLOCK = DOWN * WEIGHT_STRIDE
var<workgroup> tile_qw: array<array<vec4<f32>, WEIGHT_BLOCK>, ROWS>;
//#if TAIL > 0
//#let TAIL_BLOCK = VALUES / 4 * TAIL_WIDTH
var<workgroup> tails: array<array<f32, TAIL_BLOCK>, 4>;
//#endif
var<workgroup> last: u32;
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
  // Row local.y + I * DOWN has no name: it would keep a register for each I through the loop.
  //#for I in 0..ROWS
  var top_I = LOWEST;
  var total_I = 0.0;
  //#for C in 0..STRIPS
  var o_C_I = vec4<f32>();
  //#endfor
  //#for E in 0..TAIL
  var tail_E_I = 0.0;
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
  //#if TAIL > 0
  var next_tail = vec4<f32>();
  //#endif
  // NVIDIA's open compiler has to be shown that all turn as often: else it spills hundreds of registers.
  if (thread == 0u) { last = end; }
  let stop = workgroupUniformLoad(&last);
  for (var key0 = 0u; key0 < stop; key0 = key0 + KEYS) {
    //#for I in 0..KEY_LOADS
    let key_start_I = kv_start + min(key0 + load_row + I * LOADED, end - 1u) * kv_step;
    //#endfor
    //#include "attention/shared_fetch.wgsl" WORD="load_word"
    //#for I in 0..ROWS, J in 0..EACH
    var s_I_J = 0.0;
    //#endfor
    for (var step = 0u; step < STEPS; step = step + 1u) {
      //#include "attention/shared_place.wgsl"
      workgroupBarrier();
      if (step + 1u < STEPS) {
        let word = (step + 1u) * DEPTH + load_word;
        //#include "attention/shared_fetch.wgsl" WORD=word
      }
      //#let IS_WHOLE = WORDS % DEPTH == 0
      //#let DEEP = IS_WHOLE ? "DEPTH" : "min(DEPTH, WORDS - step * DEPTH)"
      for (var word = 0u; word < DEEP; word = word + 1u) {
        let at_k = local.x * STRIDE + word;
        //#for J in 0..EACH
        let k_J = tile_kv[J][at_k];
        //#endfor
        let at_q = local.y * STRIDE + word;
        //#for I in 0..ROWS
        let q_I = tile_qw[I][at_q];
        //#for P in x y z w, J in 0..EACH
        s_I_J = fma(q_I.P, k_J.P, s_I_J);
        //#endfor
        //#endfor
      }
      workgroupBarrier();
    }

    //#include "attention/shared_values.wgsl" FIRST=key0
    let key = key0 + 4u * local.x;
    // Query i sees its key j if j is at most `reach`, less what both add as constants.
    let reach = i32(row0 + local.y + params.lk) - i32(key + params.lq);
    //#for I in 0..ROWS, J in 0..EACH
    //#let AHEAD = J / 4 * FOURS_KEYS + J % 4
    let key_I_J = min(key + AHEAD, end - 1u);
    let is_seen_I_J = reach >= i32(AHEAD) - i32(I * DOWN);
    s_I_J = logit(s_I_J * params.scale, row0 + local.y + I * DOWN, key_I_J, is_seen_I_J, bias_start, length, last_bias);
    //#endfor
    if (key0 + KEYS > stop) {
      //#for I in 0..ROWS, J in 0..EACH
      //#let AHEAD = J / 4 * FOURS_KEYS + J % 4
      s_I_J = select(HIDDEN, s_I_J, key + AHEAD < end);
      //#endfor
    }
    //#for I in 0..ROWS
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
      row_values[(local.y + I * DOWN) * PARTS + local.x / PART] = own_I;
      //#endfor
    }
    workgroupBarrier();
    //#for I in 0..ROWS, X in 0..PARTS
    own_I = max(own_I, row_values[(local.y + I * DOWN) * PARTS + X]);
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
    //#for E in 0..TAIL
    tail_E_I = tail_E_I * fade_I;
    //#endfor
    //#for H in 0..FOURS
    //#let A = 4 * H
    //#let B = 4 * H + 1
    //#let C = 4 * H + 2
    //#let D = 4 * H + 3
    let s_I_of_H = vec4<f32>(s_I_A, s_I_B, s_I_C, s_I_D);
    let p_I_H = exp2(s_I_of_H - next_I);
    total_I = total_I + (p_I_H.x + p_I_H.y + (p_I_H.z + p_I_H.w));
    //#if !IS_PARTLY
    tile_qw[I][local.y * WEIGHT_STRIDE + H * ACROSS + local.x] = p_I_H;
    //#endif
    //#endfor
    //#endfor
    let parts = min(KEYS / VALUES, (stop - key0 + VALUES - 1u) / VALUES);
    for (var part = 0u; part < parts; part = part + 1u) {
      //#if IS_PARTLY
      if (part % PARTS_OF_CHUNK == 0u) {
        let chunk = part / PARTS_OF_CHUNK;
        if (local.x / 8u == chunk % CHUNKS_OF_FOUR) {
          //#for I in 0..ROWS
          tile_qw[I][local.y * WEIGHT_STRIDE + local.x % 8u] = select(p_I_0, p_I_1, chunk >= CHUNKS_OF_FOUR);
          //#endfor
        }
      }
      //#endif
      //#include "attention/shared_put_values.wgsl"
      workgroupBarrier();
      if (part + 1u < parts) {
        //#include "attention/shared_values.wgsl" FIRST="(key0 + (part + 1u) * VALUES)"
      }
      for (var word = 0u; word < VALUES / 4u; word = word + 1u) {
        let at_p = local.y * WEIGHT_STRIDE + part % PARTS_OF_CHUNK * (VALUES / 4u) + word;
        //#for I in 0..ROWS
        let p_I = tile_qw[I][at_p];
        //#endfor
        let at_v = word * ACROSS + local.x;
        //#for J in 0..4, C in 0..STRIPS
        //#let BLOCK = J * FOURS + C % FOURS
        //#let AHEAD = C / FOURS * STRIP
        let v_J_C = tile_kv[BLOCK][AHEAD + at_v];
        //#for I in 0..ROWS
        o_C_I = fma(vec4<f32>(p_I[J]), v_J_C, o_C_I);
        //#endfor
        //#endfor
        //#if TAIL > 0
        let at_tail = at_v * TAIL;
        //#for J in 0..4, E in 0..TAIL
        let tail_J_of_E = tails[J][at_tail + E];
        //#for I in 0..ROWS
        tail_E_I = fma(p_I[J], tail_J_of_E, tail_E_I);
        //#endfor
        //#endfor
        //#endif
      }
      workgroupBarrier();
    }
  }
  //#for S in 0..SHUFFLED, I in 0..ROWS
  total_I = total_I + subgroupShuffleXor(total_I, 1u << S);
  //#endfor
  //#if PARTS > 1
  if (local.x % PART == 0u) {
    //#for I in 0..ROWS
    row_values[(local.y + I * DOWN) * PARTS + local.x / PART] = total_I;
    //#endfor
  }
  workgroupBarrier();
  //#for I in 0..ROWS
  total_I = row_values[(local.y + I * DOWN) * PARTS];
  //#for X in 1..PARTS
  total_I = total_I + row_values[(local.y + I * DOWN) * PARTS + X];
  //#endfor
  //#endfor
  //#endif
  //#for I in 0..ROWS
  let norm_I = select(0.0, 1.0 / total_I, total_I > 0.0);
  //#if TAIL > 0
  //#for E in 0..TAIL
  tails[local.y % 4u][(local.y / 4u * ACROSS + local.x) * TAIL + E] = tail_E_I * norm_I;
  //#endfor
  workgroupBarrier();
  //#endif
  if (row0 + (local.y + I * DOWN) < params.lq) {
    let at = q_start + (row0 + (local.y + I * DOWN)) * q_step + local.x;
    //#for C in 0..STRIPS
    if (C * ACROSS + local.x < WORDS) { y_put(at + C * ACROSS, o_C_I * norm_I); }
    //#endfor
    //#if TAIL > 0
    if (local.x < REST) {
      let source = local.y / 4u * TAIL_WIDTH + 4u * local.x;
      let words = vec4<f32>(
        tails[local.y % 4u][source],
        tails[local.y % 4u][source + 1u],
        tails[local.y % 4u][source + 2u],
        tails[local.y % 4u][source + 3u],
      );
      y_put(at + STRIPS * ACROSS, words);
    }
    //#endif
  }
  //#if TAIL > 0
  workgroupBarrier();
  //#endif
  //#endfor
}
