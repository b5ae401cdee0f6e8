// What f16 does not hold becomes ±65504, and NaN any number; both are counted, so that whoever runs the
// kernel can have the layer computed with f32.

// Largest magnitudes that were rounded, as bits: NaN is above infinity, and that above all numbers.
var<private> largest_bits: vec4<u32>;

fn held(v: vec4<f32>) -> vec4<f32> {
  largest_bits = max(largest_bits, bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu));
  return clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0));
}

// The last thing that every invocation does. From 65520 on, numbers round to more than 65504.
fn count_saturated() {
  if (any(largest_bits >= vec4<u32>(0x477ff000u))) { saturation_add(params.layer); }
}
