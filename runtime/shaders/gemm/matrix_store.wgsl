// In gemm/matrix.wgsl: puts what was loaded into tiles.

//#param A_AT: wgsl // where they begin
//#param B_AT: wgsl
//#param PASS: u32

//#for I in 0..A_LOADS
tile_a[A_AT + (thread / DEPTH + I * ROWS_AT_ONCE) * A_STEP + thread % DEPTH] = next_a_I;
//#endfor
//#for I in 0..B_LOADS
//#include "gemm/matrix_place.wgsl"
tile_b[B_AT + ROW * B_STEP + WORD] = next_b_I;
//#endfor
