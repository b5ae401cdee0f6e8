// What every convolution reads and writes, and the last step of every output: y = act([cache; x] ∗
// weight + bias) + residual, channels last. All sizes are parameters of the dispatch.

//#param WIDTH: u32 // input channels per access; 4 needs a number of them that divides by 4
//#param OUT_WIDTH: u32 // output channels per access, likewise
//#param CACHE: bool = false // the frames before the first are in a tensor of their own
//#param BIAS: bool = false
//#param RESIDUAL: bool = false
//#param ASKS: bool = false // needs RESIDUAL: it is bound whether there is one or not, and the dispatch says so

//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"
//#let OUT = OUT_WIDTH == 4 ? "vec4<f32>" : "f32"
//#buffer read       x        WIDTH     // [batch, x_frames, x_height, x_width, words * WIDTH]
//#if CACHE
//#buffer read       cache    WIDTH     // [batch, cache_frames, x_height, x_width, words * WIDTH]
//#endif
//#buffer read       weight   WIDTH     // [channels, k_frames, k_height, k_width, words * WIDTH]
//#if BIAS
//#buffer read       bias     OUT_WIDTH // [channels]
//#endif
//#if RESIDUAL
//#buffer read       residual OUT_WIDTH // [batch, y_frames, y_height, y_width, channels]
//#endif
//#buffer read_write y        OUT_WIDTH // likewise
//#uniform words: u32
//#uniform channels: u32
//#uniform x_frames: u32
//#uniform cache_frames: u32
//#uniform x_height: u32
//#uniform x_width: u32
//#uniform y_frames: u32
//#uniform y_height: u32
//#uniform y_width: u32
//#uniform k_frames: u32
//#uniform k_height: u32
//#uniform k_width: u32
//#uniform stride_t: u32
//#uniform stride_h: u32
//#uniform stride_w: u32
//#uniform front: u32 // frames of zeros before the cache
//#uniform pad_top: i32
//#uniform pad_left: i32
//#uniform up_shift: u32 // 1 where the input is seen at twice its size, else 0
//#uniform seen_height: i32 // of the input
//#uniform seen_width: i32
//#if ASKS
//#uniform has_residual: u32
//#endif

//#include "shared/activation.wgsl" T=OUT

// The biases of four channels, or zeros.
fn biases(channel: u32) -> vec4<f32> {
  //#if !BIAS
  return vec4<f32>();
  //#elif OUT_WIDTH == 4
  return bias_at(min(channel, params.channels - 4u) / 4u);
  //#else
  let last = params.channels - 1u;
  return vec4<f32>(
    bias_at(min(channel, last)),
    bias_at(min(channel + 1u, last)),
    bias_at(min(channel + 2u, last)),
    bias_at(min(channel + 3u, last)),
  );
  //#endif
}

fn finish(pixel: u32, channel: u32, sum: OUT) {
  let at = (pixel * params.channels + channel) / OUT_WIDTH;
  var value = act_ACTIVATION(sum);
  //#if ASKS
  if (params.has_residual != 0u) { value = value + residual_at(at); }
  //#elif RESIDUAL
  value = value + residual_at(at);
  //#endif
  y_put(at, value);
}

// Finishes the sums of four neighbouring channels of one pixel, as far as they exist; pixels count
// over batch and frames.
fn store(pixel: u32, channel: u32, sums: vec4<f32>) {
  //#if OUT_WIDTH == 4
  if (channel < params.channels) { finish(pixel, channel, sums); }
  //#else
  //#for C in 0..4
  if (channel + C < params.channels) { finish(pixel, channel + C, sums[C]); }
  //#endfor
  //#endif
}
