// In conv/tiles.wgsl: asks memory for what the invocation brings to the next tiles, and goes on;
// zeros past the end. It brings the same words of the sum for all of its pixels.

//#for E in 0..PER_WORD
let tap_E = tap_of(place_E, batch);
//#endfor
//#for I in 0..PIXEL_LOADS
{
  let origin = origins[lane_m + I * STEP];
  //#if WIDTH == 4
  next_x_I = tap_at(tap_0, origin);
  //#else
  next_x_I = vec4<f32>(tap_at(tap_0, origin), tap_at(tap_1, origin), tap_at(tap_2, origin), tap_at(tap_3, origin));
  //#endif
}
//#endfor
//#for I in 0..CHANNEL_LOADS
next_w_I = weight_four(k, row_words, row_I);
//#endfor
k = k + DEPTH * PER_WORD;
//#for E in 0..PER_WORD
place_E = further(place_E, DEPTH * PER_WORD);
//#endfor
