// y = act(x ∗ weight + bias) + residual for kernels three columns wide at a stride of 1, on
// software adapters with subgroups of exactly 8: Winograd's minimal filtering F(2, 3) along the
// rows. Two neighbours of a row
//
//     y0 = x0 g0 + x1 g1 + x2 g2,  y1 = x1 g0 + x2 g1 + x3 g2
//
// take four products instead of six,
//
//     m0 = (x0 - x2) g0,  m1 = (x1 + x2) (g0 + g1 + g2) / 2,  m2 = (x2 - x1) (g0 - g1 + g2) / 2,  m3 = (x1 - x3) g2,
//     y0 = m0 + m1 + m2,  y1 = m1 - m2 - m3,
//
// of which each is summed up over channels, rows and frames first. Lanes load and transform the
// weights of one channel each and broadcast them; no workgroup memory.
//
// Taps on the zero frames before x are skipped. Workgroup: 8 x 1 x 1; a frame is cut into runs of 2
// * PAIRS pixels that do not cross the end of a row; grid: runs of a frame / 8, channels /
// CHANNELS, batch * y_frames. Pixels and channels past the end are computed on clamped addresses
// and not stored.
//
// Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.

//#param PAIRS: u32 // of pixels per invocation, neighbours in a row
//#param CHANNELS: u32 // output channels per invocation, a multiple of 4
//#param LEAVING: u32 = 2 // pixels that are stored at once: fewer are shorter code, and take longer

//#let LANES = 8
//#let PIXELS = 2 * PAIRS
//#let GROUPS = CHANNELS / 4
//#let LOADS = (CHANNELS + LANES - 1) / LANES // rows of weights that an invocation loads
//#include "conv/problem.wgsl" CACHE=false
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let runs = (params.y_width + PIXELS - 1u) / PIXELS;
  let run = wg.x * LANES + local.x;
  let row = min(run / runs, params.y_height - 1u);
  let column = (run % runs) * PIXELS;
  let first = (wg.z * params.y_height + row) * params.y_width + column;
  let top = i32(row * params.stride_h) - params.pad_top;
  let left = i32(column) - params.pad_left;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let words = params.words;
  let row_words = params.k_frames * params.k_height * 3u * words;
  let n0 = wg.y * CHANNELS;
  //#for L in 0..LOADS
  let row_L = min(n0 + L * LANES + local.x, params.channels - 1u) * row_words;
  //#endfor
  //#let SEEN = PIXELS + 2
  //#for I in 0..SEEN
  let c_I = left + i32(I);
  let inside_I = c_I >= 0 && c_I < params.seen_width;
  let v_I = (u32(clamp(c_I, 0, params.seen_width - 1)) >> params.up_shift) * words;
  //#endfor
  //#for G in 0..GROUPS, P in 0..PAIRS, M in 0..4
  var s_P_M_G = vec4<f32>();
  //#endfor
  let skipped = max(params.front, time) - time;
  for (var dt = skipped; dt < params.k_frames; dt += 1u) {
    let frame = batch * params.x_frames + time + dt - params.front;
    for (var dh = 0u; dh < params.k_height; dh += 1u) {
      let tap = (dt * params.k_height + dh) * 3u * words;
      let h = top + i32(dh);
      let is_row = h >= 0 && h < params.seen_height;
      let x_row = u32(clamp(h, 0, params.seen_height - 1)) >> params.up_shift;
      let line = (frame * params.x_height + x_row) * params.x_width * words;
      for (var k = 0u; k < words; k += 1u) {
        //#for I in 0..SEEN
        let x_I = select(T(0.0), x_at(line + v_I + k), is_row && inside_I);
        //#endfor
        //#for P in 0..PAIRS
        //#let A = 2 * P
        //#let B = 2 * P + 1
        //#let C = 2 * P + 2
        //#let D = 2 * P + 3
        let u_P_0 = x_A - x_C;
        let u_P_1 = x_B + x_C;
        let u_P_2 = x_C - x_B;
        let u_P_3 = x_B - x_D;
        //#endfor
        //#for L in 0..LOADS
        let g_0_L = weight_at(row_L + tap + k);
        let middle_L = weight_at(row_L + tap + words + k);
        let g_3_L = weight_at(row_L + tap + 2u * words + k);
        let g_1_L = 0.5 * (g_0_L + middle_L + g_3_L);
        let g_2_L = 0.5 * (g_0_L - middle_L + g_3_L);
        //#endfor
        //#for G in 0..GROUPS, M in 0..4
        //#for C in 0..4
        //#let J = G * 4 + C
        //#let L = J / LANES
        //#let LANE = J % LANES
        let w_M_G_C = subgroupBroadcast(g_M_L, LANE);
        //#endfor
        //#if WIDTH == 4
        //#for E in x y z w
        let w_M_G_E = vec4<f32>(w_M_G_0.E, w_M_G_1.E, w_M_G_2.E, w_M_G_3.E);
        //#endfor
        // All of a sum before the next one: it stays in its register for so long.
        //#for P in 0..PAIRS, E in x y z w
        s_P_M_G = fma(vec4<f32>(u_P_M.E), w_M_G_E, s_P_M_G);
        //#endfor
        //#else
        let w_M_G = vec4<f32>(w_M_G_0, w_M_G_1, w_M_G_2, w_M_G_3);
        //#for P in 0..PAIRS
        s_P_M_G = fma(vec4<f32>(u_P_M), w_M_G, s_P_M_G);
        //#endfor
        //#endif
        //#endfor
      }
    }
  }
  //#for G in 0..GROUPS
  let bias_G = biases(n0 + G * 4u);
  //#endfor
  //#for P in 0..PAIRS, G in 0..GROUPS
  //#let LEFT = 2 * P
  //#let RIGHT = 2 * P + 1
  var r_LEFT_G = s_P_0_G + s_P_1_G + s_P_2_G + bias_G;
  var r_RIGHT_G = s_P_1_G - s_P_2_G - s_P_3_G + bias_G;
  //#endfor
  // Results leave from the first slots, and the others move up: software adapters compile branches for every element
  // that a lane loads or stores, which would take longer for all pixels than everything else.
  if (run >= runs * params.y_height) { return; }
  let pixels = min(PIXELS, params.y_width - column);
  for (var pixel = 0u; pixel < pixels; pixel = pixel + LEAVING) {
    //#for Q in 0..LEAVING
    if (pixel + Q < pixels) {
      //#for G in 0..GROUPS
      store(first + pixel + Q, n0 + G * 4u, r_Q_G);
      //#endfor
    }
    //#endfor
    //#let STAYING = PIXELS - LEAVING
    //#for Q in 0..STAYING, G in 0..GROUPS
    //#let NEXT = Q + LEAVING
    r_Q_G = r_NEXT_G;
    //#endfor
  }
}
