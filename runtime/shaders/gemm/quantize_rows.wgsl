// Rounds blocks of 32 elements of a row to int8 with a scale each, that of its largest magnitude:
// y = [scale, scaled sums of the first and the last 16, 0; elements by fours].
//
// A block with a NaN or an infinite element gets that as its scale, so that it shows in every
// product. One invocation per block. Grid: blocks / 64.

//#let BLOCK = 3 // vec4<u32>s of a block
//#buffer read       x 4 // [blocks, 32]
//#buffer read_write y 4 // u32 [blocks, 12]
//#uniform count: u32 // blocks
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let block = wg.x * 64u + local.x;
  if (block >= params.count) { return; }
  //#for I in 0..8
  let x_I = x_at(8u * block + I);
  let bits_I = bitcast<vec4<u32>>(x_I) & vec4<u32>(0x7fffffffu);
  //#endfor
  // Magnitudes are ordered as their bits are, with NaN above all.
  let half = max(max(bits_0, bits_1), max(bits_2, bits_3));
  let all = max(half, max(max(bits_4, bits_5), max(bits_6, bits_7)));
  let scale = bitcast<f32>(max(max(all.x, all.y), max(all.z, all.w))) / 127.0;
  let factor = select(0.0, 1.0 / scale, scale > 1e-35);
  //#for I in 0..8
  let q_I = vec4<i32>(round(factor * x_I));
  //#endfor
  let low = q_0 + q_1 + q_2 + q_3;
  let high = q_4 + q_5 + q_6 + q_7;
  let sums = scale * vec2<f32>(f32(low.x + low.y + low.z + low.w), f32(high.x + high.y + high.z + high.w));
  y_put(BLOCK * block, bitcast<vec4<u32>>(vec4<f32>(scale, sums, 0.0)));
  //#for H in 0..2
  //#let A = 4 * H
  //#let B = 4 * H + 1
  //#let C = 4 * H + 2
  //#let D = 4 * H + 3
  let words_H = vec4<u32>(pack4xI8Clamp(q_A), pack4xI8Clamp(q_B), pack4xI8Clamp(q_C), pack4xI8Clamp(q_D));
  y_put(BLOCK * block + H + 1u, words_H);
  //#endfor
}
