// y = epilogue(a · bᵀ) for GPUs on operands of 8 bits: tiles of both, 64 deep, in workgroup memory,
// as gemm/shared.wgsl has them. Products of 16 elements are exact, sums are f32.
//
// Workgroup: 8 x 8 x 1; grid: n / STORED_COLUMNS, m / 64. Workgroup memory: 20992 bytes.

//#param GLU: bool = false
//#let THREADS = 8 // along each side of a workgroup
//#let SIDE = 8 // rows and columns of the result per invocation
//#let TILE = THREADS * SIDE
//#let STORED = GLU ? SIDE / 2 : SIDE // of these columns, that are stored
//#let DEPTH = 4 // 16-byte words along k in a tile; two of them have one scale of b
//#let STRIDE = DEPTH + 1 // words from one row of a tile to the next: odd, so that neighbours lie in different banks
//#let LOADS = TILE * DEPTH / (THREADS * THREADS) // words of each tile that an invocation brings
//#let ROW_STEP = THREADS * THREADS / DEPTH // rows that the workgroup brings at a time
//#let SCALES = DEPTH / 2
//#let SCALE_LOADS = TILE * SCALES / (THREADS * THREADS)
//#let HEADER = 1 // words in front of a row of a, as gemm/quantize_rows.wgsl writes them
//#buffer read       a 4 // rows as gemm/quantize_rows.wgsl writes them
//#buffer read       b 4 // [n, k] in a format of int8 blocks, k a multiple of 32
//#include "gemm/sizes.wgsl" A_WIDTH=4, B_WIDTH=4
//#include "gemm/epilogue.wgsl" Y_WIDTH=1
//#include "gemm/tile_columns.wgsl" TILE_COLUMNS=TILE
//#workgroup THREADS, THREADS, 1

//#if LOW_RANK
//#include "gemm/slice.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/slice.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif

// Four times four products of int8.
fn dot16(x: vec4<u32>, w: vec4<u32>) -> f32 {
  return f32(dot4I8Packed(x.x, w.x) + dot4I8Packed(x.y, w.y) + dot4I8Packed(x.z, w.z) + dot4I8Packed(x.w, w.w));
}

// Elements 16k … 16k + 15 of a row of a, zeros past its end.
fn a_word16(row: u32, k: u32) -> vec4<u32> {
  let steps = params.k / 16u;
  let at = row * (steps + HEADER) + HEADER + min(k, steps - 1u);
  return select(vec4<u32>(), a_at(at), vec4<bool>(k < steps));
}

var<workgroup> tile_a: array<vec4<u32>, TILE * STRIDE>;
var<workgroup> tile_b: array<vec4<u32>, TILE * STRIDE>;
var<workgroup> tile_scale: array<f32, TILE * SCALES>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * THREADS + local.x;
  let word = thread % DEPTH;
  let n0 = wg.x * STORED_COLUMNS;
  let m0 = wg.y * TILE;
  //#for R in 0..SIDE, C in 0..SIDE
  var s_R_C = 0.0;
  //#endfor
  let words = params.k / 16u;
  for (var k0 = 0u; k0 < words; k0 = k0 + DEPTH) {
    //#for I in 0..LOADS
    let row_I = thread / DEPTH + I * ROW_STEP;
    tile_a[row_I * STRIDE + word] = a_word16(min(m0 + row_I, params.m - 1u), k0 + word);
    tile_b[row_I * STRIDE + word] = b_int8(tile_column(n0, row_I) * words + min(k0 + word, words - 1u));
    //#endfor
    //#for I in 0..SCALE_LOADS
    let item_I = thread + I * THREADS * THREADS;
    let block_I = tile_column(n0, item_I / SCALES) * words + min(k0 + item_I % SCALES * 2u, words - 1u);
    tile_scale[item_I] = b_scale(4u * block_I).x;
    //#endfor
    workgroupBarrier();
    //#for H in 0..SCALES, C in 0..SIDE
    let q_H_C = tile_scale[(local.x + C * THREADS) * SCALES + H];
    //#endfor
    //#for K in 0..DEPTH
    //#let H = K / 2
    //#for C in 0..SIDE
    let w_K_C = tile_b[(local.x + C * THREADS) * STRIDE + K];
    //#endfor
    //#for R in 0..SIDE
    let x_K_R = tile_a[(local.y + R * THREADS) * STRIDE + K];
    //#for C in 0..SIDE
    s_R_C = fma(dot16(x_K_R, w_K_C), q_H_C, s_R_C);
    //#endfor
    //#endfor
    //#endfor
    workgroupBarrier();
  }
  //#for R in 0..SIDE
  let scale_R = bitcast<f32>(a_at(min(m0 + local.y + R * THREADS, params.m - 1u) * (words + HEADER)).x);
  //#for C in 0..SIDE
  s_R_C = s_R_C * scale_R;
  //#endfor
  //#endfor
  //#if LOW_RANK
  let row_words = params.rank / RANK_WIDTH;
  let steps = (params.rank + 3u) / 4u;
  for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
    //#for I in 0..LOADS
    let row_I = thread / DEPTH + I * ROW_STEP;
    tile_a[row_I * STRIDE + word] = bitcast<vec4<u32>>(t_slice(min(m0 + row_I, params.m - 1u) * row_words, k0 + word));
    tile_b[row_I * STRIDE + word] = bitcast<vec4<u32>>(up_slice(tile_column(n0, row_I) * row_words, k0 + word));
    //#endfor
    workgroupBarrier();
    //#for K in 0..DEPTH
    //#for C in 0..SIDE
    let w_K_C = bitcast<vec4<f32>>(tile_b[(local.x + C * THREADS) * STRIDE + K]);
    //#endfor
    //#for R in 0..SIDE
    let x_K_R = bitcast<vec4<f32>>(tile_a[(local.y + R * THREADS) * STRIDE + K]);
    //#for C in 0..SIDE
    s_R_C = s_R_C + dot(x_K_R, w_K_C);
    //#endfor
    //#endfor
    //#endfor
    workgroupBarrier();
  }
  //#endif
  //#for R in 0..SIDE
  if (m0 + local.y + R * THREADS < params.m) {
    //#for C in 0..STORED
    //#let D = C + STORED
    //#let VALUE = GLU ? "glu(s_R_C, s_R_D)" : "s_R_C"
    if (n0 + local.x + C * THREADS < params.n) {
      finish(m0 + local.y + R * THREADS, n0 + local.x + C * THREADS, VALUE);
    }
    //#endfor
  }
  //#endfor
}
