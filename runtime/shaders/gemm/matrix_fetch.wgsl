// In gemm/matrix.wgsl: loads what the invocation brings to the tiles whose sums begin at step FROM;
// zeros past the end.

//#param FROM: wgsl
//#param PASS: u32

{
  //#for I in 0..A_LOADS
  let a_row_I = min(m0 + thread / DEPTH + I * ROWS_AT_ONCE, params.m - 1u);
  next_a_I = A_slice(A_FIRST + a_row_I * row_words, FROM + thread % DEPTH);
  //#endfor
  //#for I in 0..B_LOADS
  //#include "gemm/matrix_place.wgsl"
  //#if PASS == 0 && LAYOUT == kn
  next_b_I = FACTOR(b_columns(b_start, 4u * FROM + ROW, n0 + WORD * 4u));
  //#elif PASS == 0 && QUANTIZED
  //#let AT = WHOLE_K ? "(FROM + WORD)" : "min(FROM + WORD, steps - 1u)"
  //#if IN_RUN == 0
  let start_GROUP = b_start + tile_column(n0, ROW) * row_words;
  let scale_GROUP = b_scale(start_GROUP + AT);
  //#endif
  let four_I = b_scaled(start_GROUP + AT, scale_GROUP);
  //#if WHOLE_K
  next_b_I = FACTOR(four_I);
  //#else
  next_b_I = FACTOR(select(vec4<f32>(), four_I, vec4<bool>(FROM + WORD < steps)));
  //#endif
  //#else
  next_b_I = B_slice(B_FIRST + tile_column(n0, ROW) * row_words, FROM + WORD);
  //#endif
  //#endfor
}
