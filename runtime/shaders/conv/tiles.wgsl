// y = act([cache; x] ∗ weight + bias) + residual for GPUs: implicit matrix product of pixels by
// channels, the sum running over taps and input channels, with tiles of both operands in workgroup
// memory. While one tile is multiplied the next one is on its way.
//
// Taps on the zero frames before the cache are skipped. Workgroup: CHANNEL_THREADS x PIXEL_THREADS
// x 1; grid: pixels of a frame / TILE_PIXELS, channels / TILE_CHANNELS, batch * y_frames.
//
// A tile has a block for each pixel or channel of an invocation. The block's index is a constant, so
// that one check of bounds serves all blocks, and their distance stands in the instruction. Channel
// 4 (g * CHANNEL_THREADS + x) + c lies in block 4 g + c. Two places stay free after every word, so that
// neighbouring invocations use different banks.
// Workgroup memory: 64 * ((PIXEL_THREADS + 2) * PIXELS + (CHANNEL_THREADS + 2) * CHANNELS)
// + 16 * (TILE_PIXELS + TAPS + 1) bytes.

//#param PIXEL_THREADS: u32 // invocations of a workgroup along the pixels
//#param PIXELS: u32 // that each of them computes
//#param CHANNEL_THREADS: u32 // along the channels
//#param CHANNELS: u32 // output channels that each of them computes, a multiple of 4

//#let DEPTH = 4 // words of four elements along the sum that lie in workgroup memory at a time
//#let TILE_PIXELS = PIXEL_THREADS * PIXELS
//#let TILE_CHANNELS = CHANNEL_THREADS * CHANNELS
//#let THREADS = PIXEL_THREADS * CHANNEL_THREADS
//#let STEP = THREADS / DEPTH
//#let PIXEL_STRIDE = PIXEL_THREADS + 2
//#let CHANNEL_STRIDE = CHANNEL_THREADS + 2
//#let GROUPS = CHANNELS / 4
//#let PIXEL_LOADS = TILE_PIXELS / STEP // words of a tile that an invocation brings
//#let CHANNEL_LOADS = TILE_CHANNELS / STEP
//#include "conv/problem.wgsl"
//#include "conv/taps.wgsl"
//#workgroup CHANNEL_THREADS, PIXEL_THREADS, 1

//#let PIXEL_BLOCK = DEPTH * PIXEL_STRIDE
//#let CHANNEL_BLOCK = DEPTH * CHANNEL_STRIDE
var<workgroup> x_tile: array<array<vec4<f32>, PIXEL_BLOCK>, PIXELS>;
var<workgroup> w_tile: array<array<vec4<f32>, CHANNEL_BLOCK>, CHANNELS>;
var<workgroup> origins: array<vec3<u32>, TILE_PIXELS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let row_words = tap_count() * params.words;
  let p0 = wg.x * TILE_PIXELS;
  let n0 = wg.y * TILE_CHANNELS;
  let id = local.y * CHANNEL_THREADS + local.x;
  let lane_k = id % DEPTH;
  let lane_m = id / DEPTH;
  find_taps(id, batch, time);
  for (var m = id; m < TILE_PIXELS; m += THREADS) {
    origins[m] = origin_of(min(p0 + m, plane - 1u));
  }
  workgroupBarrier();
  //#for I in 0..PIXELS, G in 0..GROUPS, C in 0..4
  var s_I_G_C = 0.0;
  //#endfor
  let skipped = (max(params.front, time) - time) * params.k_height * params.k_width * params.words;
  var k = skipped + lane_k * PER_WORD;
  //#for E in 0..PER_WORD
  var place_E = place_of(k + E);
  //#endfor
  //#for I in 0..CHANNEL_LOADS
  let row_I = min(n0 + lane_m + I * STEP, params.channels - 1u) * row_words;
  //#endfor
  //#for I in 0..PIXEL_LOADS
  var next_x_I = vec4<f32>();
  //#endfor
  //#for I in 0..CHANNEL_LOADS
  var next_w_I = vec4<f32>();
  //#endfor
  // Every turn but the last asks for a tile, and every one but the first multiplies the one before.
  let all = max(row_words, skipped) - skipped;
  for (var k0 = 0u; k0 < all + DEPTH * PER_WORD; k0 += DEPTH * PER_WORD) {
    if (k0 < all) {
      //#include "conv/tiles_fetch.wgsl"
    }
    if (k0 > 0u) {
      for (var d = 0u; d < DEPTH; d += 1u) {
        let at_x = d * PIXEL_STRIDE + local.y;
        let at_w = d * CHANNEL_STRIDE + local.x;
        //#for I in 0..PIXELS
        let x_I = x_tile[I][at_x];
        //#endfor
        //#for G in 0..GROUPS, C in 0..4
        //#let BLOCK = 4 * G + C
        let w_G_C = w_tile[BLOCK][at_w];
        //#endfor
        //#for I in 0..PIXELS, G in 0..GROUPS, C in 0..4, P in x y z w
        s_I_G_C = fma(x_I.P, w_G_C.P, s_I_G_C);
        //#endfor
      }
    }
    workgroupBarrier();
    let put_x = lane_k * PIXEL_STRIDE + lane_m % PIXEL_THREADS;
    //#for I in 0..PIXEL_LOADS
    x_tile[lane_m / PIXEL_THREADS + I * STEP / PIXEL_THREADS][put_x] = next_x_I;
    //#endfor
    //#for I in 0..CHANNEL_LOADS
    {
      let m = lane_m + I * STEP;
      let group = m / (4u * CHANNEL_THREADS);
      w_tile[4u * group + m % 4u][lane_k * CHANNEL_STRIDE + m / 4u % CHANNEL_THREADS] = next_w_I;
    }
    //#endfor
    workgroupBarrier();
  }
  //#for G in 0..GROUPS
  let channel_G = n0 + (G * CHANNEL_THREADS + local.x) * 4u;
  let bias_G = biases(channel_G);
  //#endfor
  //#for I in 0..PIXELS
  let pixel_I = p0 + I * PIXEL_THREADS + local.y;
  if (pixel_I < plane) {
    //#for G in 0..GROUPS
    store(first + pixel_I, channel_G, vec4<f32>(s_I_G_0, s_I_G_1, s_I_G_2, s_I_G_3) + bias_G);
    //#endfor
  }
  //#endfor
}
