// y = act(x ∗ weight + bias) + residual for software adapters: implicit matrix product with a tile
// of named registers per invocation, no workgroup memory.
//
// Taps on the zero frames before x are skipped. Workgroup: 8 x 1 x 1, neighbouring pixels, so that
// all of them read the same weights at the same time; grid: pixels of a frame / (8 * PIXELS),
// channels / CHANNELS, batch * y_frames. Pixels and channels past the end are computed on clamped
// addresses and not stored.

//#param PIXELS: u32 // per invocation
//#param CHANNELS: u32 // output channels per invocation, a multiple of 4
// Software adapters pay per load whatever it loads, so broadcasts make most shapes twice as fast.
//#param BROADCASTS: bool // lanes load the weights of one channel each and broadcast them: needs subgroups of exactly 8

//#let LANES = 8
//#let GROUPS = CHANNELS / 4
//#let LOADS = BROADCASTS ? (CHANNELS + LANES - 1) / LANES : CHANNELS // rows of weights that an invocation loads
//#include "conv/problem.wgsl" CACHE=false
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let words = params.words;
  let row_words = params.k_frames * params.k_height * params.k_width * words;
  let n0 = wg.y * CHANNELS;
  //#for L in 0..LOADS
  //#let CHANNEL = BROADCASTS ? "L * LANES + local.x" : "L"
  let row_L = min(n0 + CHANNEL, params.channels - 1u) * row_words;
  //#endfor
  //#for I in 0..PIXELS
  let p_I = wg.x * LANES * PIXELS + LANES * I + local.x;
  let q_I = min(p_I, plane - 1u);
  let top_I = i32((q_I / params.y_width) * params.stride_h) - params.pad_top;
  let left_I = i32((q_I % params.y_width) * params.stride_w) - params.pad_left;
  //#for G in 0..GROUPS, C in 0..4
  var s_I_G_C = 0.0;
  //#endfor
  //#endfor
  let skipped = max(params.front, time) - time;
  for (var dt = skipped; dt < params.k_frames; dt += 1u) {
    let frame = batch * params.x_frames + time + dt - params.front;
    for (var dh = 0u; dh < params.k_height; dh += 1u) {
      for (var dw = 0u; dw < params.k_width; dw += 1u) {
        let tap = ((dt * params.k_height + dh) * params.k_width + dw) * words;
        //#for I in 0..PIXELS
        let r_I = top_I + i32(dh);
        let c_I = left_I + i32(dw);
        let inside_I = r_I >= 0 && r_I < params.seen_height && c_I >= 0 && c_I < params.seen_width;
        let h_I = u32(clamp(r_I, 0, params.seen_height - 1)) >> params.up_shift;
        let v_I = u32(clamp(c_I, 0, params.seen_width - 1)) >> params.up_shift;
        let from_I = ((frame * params.x_height + h_I) * params.x_width + v_I) * words;
        //#endfor
        for (var k = 0u; k < words; k += 1u) {
          //#for I in 0..PIXELS
          let x_I = select(T(0.0), x_at(from_I + k), inside_I);
          //#endfor
          //#if BROADCASTS
          //#for L in 0..LOADS
          let l_L = weight_at(row_L + tap + k);
          //#endfor
          //#endif
          //#for G in 0..GROUPS, C in 0..4
          //#let J = G * 4 + C
          //#if BROADCASTS
          //#let L = J / LANES
          //#let LANE = J % LANES
          let w_J = subgroupBroadcast(l_L, LANE);
          //#else
          let w_J = weight_at(row_J + tap + k);
          //#endif
          //#if WIDTH == 4
          //#for P in x y z w, I in 0..PIXELS
          s_I_G_C = fma(x_I.P, w_J.P, s_I_G_C);
          //#endfor
          //#else
          //#for I in 0..PIXELS
          s_I_G_C = fma(x_I, w_J, s_I_G_C);
          //#endfor
          //#endif
          //#endfor
        }
      }
    }
  }
  //#for G in 0..GROUPS
  let bias_G = biases(n0 + G * 4u);
  //#endfor
  //#for I in 0..PIXELS
  if (p_I < plane) {
    //#for G in 0..GROUPS
    store(first + p_I, n0 + G * 4u, vec4<f32>(s_I_G_0, s_I_G_1, s_I_G_2, s_I_G_3) + bias_G);
    //#endfor
  }
  //#endfor
}
