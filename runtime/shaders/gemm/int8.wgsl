// y = epilogue(a · bᵀ) for GPUs on operands of 8 bits: tiles of both, two blocks of 32 deep, in
// workgroup memory, as gemm/shared.wgsl has them. Products of 16 elements, or 32, are exact, sums
// are f32.
//
// An element of b is an integer times the factor of its half of a block, and the half's offset,
// which meets the sum of the elements of a.
//
// Workgroup: 8 x 8 x 1; grid: n / STORED_COLUMNS, m / 64. Workgroup memory: 14336 bytes.

//#param SIGNED: bool = false // the integers of b have all 8 bits; there are no offsets
//#param HALVES: bool = false // factor and offset differ between the halves of a block
//#param GLU: bool = false
//#let THREADS = 8 // along each side of a workgroup
//#let SIDE = 8 // rows and columns of the result per invocation
//#let TILE = THREADS * SIDE
//#let COUNT = THREADS * THREADS
//#let STORED = GLU ? SIDE / 2 : SIDE // of these columns, that are stored
//#let GROUP = 4 // columns that are multiplied at a time
//#let BLOCKS = 2 // of a row in a tile
//#let A_BLOCK = 3 // words of a block of a, as gemm/quantize_rows.wgsl writes it
//#let A_ROW = BLOCKS * A_BLOCK
//#let A_STRIDE = A_ROW + 1 // words from one row of a tile to the next: odd, so that neighbours lie in different banks
//#let B_STRIDE = 2 * BLOCKS + 1
//#let RUNS = TILE * BLOCKS / COUNT // blocks of b that an invocation brings
//#buffer read       a 4 // rows as gemm/quantize_rows.wgsl writes them
//#buffer read       b 4 // [n, k] in a format of integers in blocks, k a multiple of 32
//#include "gemm/sizes.wgsl" A_WIDTH=4, B_WIDTH=4
//#include "gemm/epilogue.wgsl" Y_WIDTH=1
//#include "gemm/tile_columns.wgsl" TILE_COLUMNS=TILE
//#workgroup THREADS, THREADS, 1

//#if LOW_RANK
//#include "gemm/slice.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/slice.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif

// Four times four products of int8, added to others.
fn dot16(x: vec4<u32>, w: vec4<u32>) -> i32 {
  return dot4I8Packed(x.x, w.x) + dot4I8Packed(x.y, w.y) + dot4I8Packed(x.z, w.z) + dot4I8Packed(x.w, w.w);
}

// Word `word` of a tile's row of a: zeros past its end.
fn a_part(row: u32, first_block: u32, word: u32) -> vec4<u32> {
  let blocks = params.k / 32u;
  let block = first_block + word / A_BLOCK;
  let at = (row * blocks + min(block, blocks - 1u)) * A_BLOCK + word % A_BLOCK;
  return select(vec4<u32>(), a_at(at), vec4<bool>(block < blocks));
}

var<workgroup> tile_a: array<vec4<u32>, TILE * A_STRIDE>;
var<workgroup> tile_b: array<vec4<u32>, TILE * B_STRIDE>;
// Of each block: factor and offset of its first half, and of its last.
var<workgroup> tile_scale: array<vec4<f32>, TILE * BLOCKS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * THREADS + local.x;
  let n0 = wg.x * STORED_COLUMNS;
  let m0 = wg.y * TILE;
  //#for R in 0..SIDE, C in 0..SIDE
  var s_R_C = 0.0;
  //#endfor
  let blocks = params.k / 32u;
  for (var k0 = 0u; k0 < blocks; k0 = k0 + BLOCKS) {
    //#for I in 0..A_ROW
    {
      let row = (thread + I * COUNT) / A_ROW;
      let word = (thread + I * COUNT) % A_ROW;
      tile_a[row * A_STRIDE + word] = a_part(min(m0 + row, params.m - 1u), k0, word);
    }
    //#endfor
    //#for I in 0..RUNS
    {
      let column = (thread + I * COUNT) / BLOCKS;
      let block = (thread + I * COUNT) % BLOCKS;
      let run = b_run(8u * (tile_column(n0, column) * blocks + min(k0 + block, blocks - 1u)));
      //#if SIGNED
      tile_b[column * B_STRIDE + 2u * block] = run.low ^ vec4<u32>(0x80808080u);
      tile_b[column * B_STRIDE + 2u * block + 1u] = run.high ^ vec4<u32>(0x80808080u);
      //#else
      tile_b[column * B_STRIDE + 2u * block] = run.low;
      tile_b[column * B_STRIDE + 2u * block + 1u] = run.high;
      //#endif
      tile_scale[column * BLOCKS + block] =
        vec4<f32>(run.low_factor, run.low_offset, run.high_factor, run.high_offset);
    }
    //#endfor
    workgroupBarrier();
    //#let GROUPS = SIDE / GROUP
    // A loop, so that software adapters compile it in seconds; compilers of GPUs unroll it.
    for (var h = 0u; h < BLOCKS; h = h + 1u) {
      //#for R in 0..SIDE
      let at_R = (local.y + R * THREADS) * A_STRIDE + h * A_BLOCK;
      let head_R = bitcast<vec4<f32>>(tile_a[at_R]);
      //#endfor
      //#for G in 0..GROUPS
      {
        //#for J in 0..GROUP
        let column_J = local.x + (G * GROUP + J) * THREADS;
        let q_J = tile_scale[column_J * BLOCKS + h];
        let low_J = tile_b[column_J * B_STRIDE + 2u * h];
        let high_J = tile_b[column_J * B_STRIDE + 2u * h + 1u];
        //#endfor
        //#for R in 0..SIDE
        {
          let low = tile_a[at_R + 1u];
          let high = tile_a[at_R + 2u];
          //#for J in 0..GROUP
          //#let C = G * GROUP + J
          //#if HALVES
          let d_J = fma(f32(dot16(low, low_J)), q_J.x, f32(dot16(high, high_J)) * q_J.z);
          s_R_C = fma(d_J, head_R.x, s_R_C) + fma(head_R.y, q_J.y, head_R.z * q_J.w);
          //#elif SIGNED
          s_R_C = fma(f32(dot16(low, low_J) + dot16(high, high_J)) * q_J.x, head_R.x, s_R_C);
          //#else
          let d_J = f32(dot16(low, low_J) + dot16(high, high_J)) * q_J.x;
          s_R_C = fma(head_R.y + head_R.z, q_J.y, fma(d_J, head_R.x, s_R_C));
          //#endif
          //#endfor
        }
        //#endfor
      }
      //#endfor
    }
    workgroupBarrier();
  }
  //#if LOW_RANK
  //#let DEPTH = 4 // vec4s of the rank in a tile
  //#let LOADS = TILE * DEPTH / COUNT
  let row_words = params.rank / RANK_WIDTH;
  let steps = (params.rank + 3u) / 4u;
  let word = thread % DEPTH;
  for (var k0 = 0u; k0 < steps; k0 = k0 + DEPTH) {
    //#for I in 0..LOADS
    let row_I = (thread + I * COUNT) / DEPTH;
    let t_start_I = min(m0 + row_I, params.m - 1u) * row_words;
    tile_a[row_I * A_STRIDE + word] = bitcast<vec4<u32>>(t_slice(t_start_I, k0 + word));
    tile_b[row_I * B_STRIDE + word] = bitcast<vec4<u32>>(up_slice(tile_column(n0, row_I) * row_words, k0 + word));
    //#endfor
    workgroupBarrier();
    //#for K in 0..DEPTH
    //#for C in 0..SIDE
    let w_K_C = bitcast<vec4<f32>>(tile_b[(local.x + C * THREADS) * B_STRIDE + K]);
    //#endfor
    //#for R in 0..SIDE
    let x_K_R = bitcast<vec4<f32>>(tile_a[(local.y + R * THREADS) * A_STRIDE + K]);
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
    //#let VALUE = GLU ? "glu(n0 + local.x + C * THREADS, s_R_C, s_R_D)" : "s_R_C"
    if (n0 + local.x + C * THREADS < params.n) {
      finish(m0 + local.y + R * THREADS, n0 + local.x + C * THREADS, VALUE);
    }
    //#endfor
  }
  //#endfor
}
