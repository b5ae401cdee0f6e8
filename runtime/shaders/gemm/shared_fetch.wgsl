// In gemm/shared.wgsl: loads what the invocation brings to the tiles whose sums begin at step FROM;
// zeros past the end.

//#param FROM: wgsl
//#param PASS: u32

{
  //#for I in 0..A_LOADS
  let a_row_I = min(m0 + thread / DEPTH + I * COUNT / DEPTH, params.m - 1u);
  next_a_I = A_slice(A_FIRST + a_row_I * row_words, FROM + thread % DEPTH);
  //#endfor
  //#for I in 0..B_LOADS
  //#include "gemm/shared_place.wgsl"
  //#if PASS == 0 && LAYOUT == kn
  next_b_I = b_slice(b_start + tile_column(n0, ROW), FROM + WORD);
  //#elif PASS == 0 && QUANTIZED
  //#let AT = WHOLE_K ? "(FROM + WORD)" : "min(FROM + WORD, steps - 1u)"
  //#if I == 0
  let start = tile_column(n0, ROW) * row_words;
  let scale = b_scale(start + AT);
  //#endif
  let four_I = b_scaled(start + AT, scale);
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
