// Rounding of factors to f16; what f16 does not hold is counted.

enable f16;

//#buffer count saturation 1
//#uniform layer: u32 // its counter

//#include "shared/saturation.wgsl"

fn half4(v: vec4<f32>) -> vec4<f16> { return vec4<f16>(held(v)); }
