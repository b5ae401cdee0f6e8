// Rounding of factors to f16; what f16 does not hold is counted.

enable f16;

//#buffer count saturation 1
//#uniform layer: u32 // its counter

//#include "shared/saturation.wgsl"

// Counts a sum to which one of f16 belongs that f16 did not hold: it is infinite, or no number.
fn count_sum(sum: f32) {
  let bits = bitcast<u32>(sum) & 0x7fffffffu;
  if (bits >= 0x7f800000u) { largest_bits = vec4<u32>(bits); }
}

fn half4(v: vec4<f32>) -> vec4<f16> { return vec4<f16>(held(v)); }
