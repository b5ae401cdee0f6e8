// y = softmax(q · kᵀ) · v for GPUs: 32 queries by 32 keys at a time, online softmax, tiles in
// workgroup memory.
//
// Workgroup: 8 x 8 x 1; grid: lq / 32, heads, batch. Invocation (x, y) has queries y + 8i, keys 4x
// + j and elements 4x … 4x + 3 of every 32 of the result. A query that sees no key gives zeros.
// Workgroup memory: 14848 bytes.

//#include "attention/logits.wgsl"
//#include "attention/slice.wgsl"
//#let THREADS = 8 // along each side of a workgroup
//#let TILE = 32 // queries per workgroup, keys per step, and elements of a head that lie in a tile at once
//#let SIDE = TILE / THREADS // queries, and keys, per invocation
//#let TILE_WORDS = TILE / 4 // vec4s of a row of a tile
//#let STRIDE = TILE_WORDS + 1 // from one row to the next: odd, so that neighbouring rows lie in different banks
//#let CHUNKS = (HEAD_DIM + TILE - 1) / TILE // tiles of a head
//#workgroup THREADS, THREADS, 1

var<workgroup> tile_q: array<vec4<f32>, TILE * STRIDE>;
var<workgroup> tile_kv: array<vec4<f32>, TILE * STRIDE>;
var<workgroup> tile_p: array<vec4<f32>, TILE * STRIDE>;
var<workgroup> row_values: array<f32, TILE * THREADS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * THREADS + local.x;
  // One invocation of 64 brings rows tile_row + 8i, word tile_word of a tile.
  let tile_row = thread / TILE_WORDS;
  let tile_word = thread % TILE_WORDS;
  let row0 = wg.x * TILE;
  //#include "attention/keys.wgsl" LAST_ROW="row0 + TILE - 1u"
  //#for I in 0..SIDE
  let row_I = local.y + I * THREADS;
  var top_I = HIDDEN;
  var total_I = 0.0;
  //#endfor
  //#for C in 0..CHUNKS, I in 0..SIDE
  var o_C_I = vec4<f32>();
  //#endfor
  //#if CHUNKS == 1
  //#include "attention/shared_queries.wgsl" CHUNK="0u"
  //#endif
  for (var key0 = 0u; key0 < end; key0 = key0 + TILE) {
    //#for I in 0..SIDE, J in 0..SIDE
    var d_I_J = 0.0;
    //#endfor
    for (var chunk = 0u; chunk < CHUNKS; chunk = chunk + 1u) {
      workgroupBarrier();
      //#if CHUNKS > 1
      //#include "attention/shared_queries.wgsl" CHUNK=chunk
      //#endif
      // Key 4x + j lies in row 8j + x, so that the invocations of a row read neighbouring rows.
      //#for I in 0..SIDE
      {
        let row = tile_row + I * THREADS;
        let place = (row % 4u) * THREADS + row / 4u;
        let start = kv_start + min(key0 + row, end - 1u) * kv_step;
        tile_kv[place * STRIDE + tile_word] = k_slice(start, chunk * TILE_WORDS + tile_word);
      }
      //#endfor
      workgroupBarrier();
      for (var word = 0u; word < TILE_WORDS; word = word + 1u) {
        //#for J in 0..SIDE
        let k_J = tile_kv[(local.x + J * THREADS) * STRIDE + word];
        //#endfor
        //#for I in 0..SIDE
        let q_I = tile_q[row_I * STRIDE + word];
        //#for J in 0..SIDE
        d_I_J = d_I_J + dot(q_I, k_J);
        //#endfor
        //#endfor
      }
    }
    let key = key0 + 4u * local.x;
    //#for I in 0..SIDE
    //#for J in 0..SIDE
    let l_I_J = logit(d_I_J, row0 + row_I, min(key + J, end - 1u), bias_start, length, last_bias);
    let s_I_J = select(HIDDEN, l_I_J, key + J < end);
    //#endfor
    row_values[row_I * THREADS + local.x] = max(max(s_I_0, s_I_1), max(s_I_2, s_I_3));
    //#endfor
    workgroupBarrier();
    //#for I in 0..SIDE
    var next_I = top_I;
    //#for X in 0..THREADS
    next_I = max(next_I, row_values[row_I * THREADS + X]);
    //#endfor
    let fade_I = exp2(max(top_I - next_I, -200.0));
    top_I = next_I;
    let s_I = vec4<f32>(s_I_0, s_I_1, s_I_2, s_I_3);
    let p_I = select(vec4<f32>(), exp2(s_I - next_I), s_I > vec4<f32>(HIDDEN_BELOW));
    total_I = total_I * fade_I + (p_I.x + p_I.y + (p_I.z + p_I.w));
    tile_p[row_I * STRIDE + local.x] = p_I;
    //#for C in 0..CHUNKS
    o_C_I = o_C_I * fade_I;
    //#endfor
    //#endfor
    //#for C in 0..CHUNKS
    workgroupBarrier();
    //#for I in 0..SIDE
    {
      let row = tile_row + I * THREADS;
      let start = kv_start + min(key0 + row, end - 1u) * kv_step;
      tile_kv[row * STRIDE + tile_word] = v_slice(start, C * TILE_WORDS + tile_word);
    }
    //#endfor
    workgroupBarrier();
    for (var word = 0u; word < TILE_WORDS; word = word + 1u) {
      //#for J in 0..4
      let v_J = tile_kv[(4u * word + J) * STRIDE + local.x];
      //#endfor
      //#for I in 0..SIDE
      let p_I = tile_p[row_I * STRIDE + word];
      //#for J in 0..4
      o_C_I = fma(vec4<f32>(p_I[J]), v_J, o_C_I);
      //#endfor
      //#endfor
    }
    //#endfor
  }
  workgroupBarrier();
  //#for I in 0..SIDE
  row_values[row_I * THREADS + local.x] = total_I;
  //#endfor
  workgroupBarrier();
  //#for I in 0..SIDE
  if (row0 + row_I < params.lq) {
    let first = row_I * THREADS;
    let sum = row_values[first]
      //#for X in 1..THREADS
      + row_values[first + X]
      //#endfor
      ;
    let norm = select(0.0, 1.0 / sum, sum > 0.0);
    let at = q_start + (row0 + row_I) * q_step + local.x;
    //#for C in 0..CHUNKS
    if (C * TILE_WORDS + local.x < WORDS) { y_put(at + C * TILE_WORDS, o_C_I * norm); }
    //#endfor
  }
  //#endfor
}
