// In conv/matrix.wgsl: loads what the invocation brings to the tiles whose sums begin at step FROM;
// zeros past the end. It brings the same words of the sum for all of its pixels.

//#param FROM: wgsl

{
  let k = skipped + (FROM + word) * PER_WORD;
  //#for E in 0..PER_WORD
  let tap_E = tap_of(k + E, row_words, batch, time);
  //#endfor
  //#for I in 0..A_LOADS
  {
    let origin = origins[thread / DEPTH + I * ROWS_AT_ONCE];
    //#if WIDTH == 4
    next_a_I = tap_at(tap_0, origin);
    //#else
    next_a_I =
      vec4<f32>(tap_at(tap_0, origin), tap_at(tap_1, origin), tap_at(tap_2, origin), tap_at(tap_3, origin));
    //#endif
  }
  //#endfor
  //#for I in 0..B_LOADS
  let channel_I = min(n0 + thread / DEPTH + I * ROWS_AT_ONCE, params.channels - 1u);
  next_b_I = weight_four(k, row_words, channel_I * row_words);
  //#endfor
}
