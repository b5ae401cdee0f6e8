// In conv/matrix.wgsl: puts what was loaded into tiles.

//#param A_AT: wgsl // where they begin
//#param B_AT: wgsl

//#for I in 0..A_LOADS
tile_a[A_AT + (thread / DEPTH + I * ROWS_AT_ONCE) * A_STEP + word] = next_a_I;
//#endfor
//#for I in 0..B_LOADS
tile_b[B_AT + (thread / DEPTH + I * ROWS_AT_ONCE) * B_STEP + word] = next_b_I;
//#endfor
