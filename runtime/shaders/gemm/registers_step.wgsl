// In gemm/registers.wgsl: four steps along the sum, from access k of the rows on.
//
// w_G_x … w_G_w are the four rows of b for group G of the columns, x_R four elements of row R of a.

//#param PASS: u32
//#param COLUMN: plain | scaled | packed // columns of b: as they are, with a scale, from a packed run
//#param J: u32 = 0 // access of the run

//#if PASS == 0 && LAYOUT == kn
//#for G in 0..GROUPS
let w_G_x = b_columns(b_start, 4u * k, n0 + G * 4u);
let w_G_y = b_columns(b_start, 4u * k + 1u, n0 + G * 4u);
let w_G_z = b_columns(b_start, 4u * k + 2u, n0 + G * 4u);
let w_G_w = b_columns(b_start, 4u * k + 3u, n0 + G * 4u);
//#endfor
//#else
//#for G in 0..GROUPS
//#for I in 0..4
//#let C = G * 4 + I
//#if COLUMN == packed
//#let HALF = J < 4 ? low : high
//#let E = J % 4
let c_G_I = b_unpacked(run_C.HALF[E], run_C.HALF_factor, run_C.HALF_offset);
//#elif COLUMN == scaled
let c_G_I = b_scaled(b_C + k, scale_C);
//#else
let c_G_I = B_four(b_C, k);
//#endif
//#endfor
//#for P in x y z w
let w_G_P = vec4<f32>(c_G_0.P, c_G_1.P, c_G_2.P, c_G_3.P);
//#endfor
//#endfor
//#endif
//#if NORM
//#if NORM_SCALE
let factor = 1.0 + norm_scale_at(k);
//#endif
//#let WEIGHT = NORM_WEIGHT ? "norm_weight_at(k)" : "vec4<f32>(1.0)"
//#let GAIN = NORM_SCALE ? (NORM_WEIGHT ? "norm_weight_at(k) * factor" : "factor") : WEIGHT
let gain = GAIN;
//#for G in 0..GROUPS, P in x y z w
gains_G = fma(vec4<f32>(gain.P), w_G_P, gains_G);
//#endfor
//#if NORM_BIAS || NORM_SHIFT
//#let BIAS_TERM = NORM_SCALE ? "norm_bias_at(k) * factor" : "norm_bias_at(k)"
//#let OFFSET = NORM_BIAS && NORM_SHIFT ? "BIAS_TERM + norm_shift_at(k)" : NORM_BIAS ? BIAS_TERM : "norm_shift_at(k)"
let offset = OFFSET;
//#for G in 0..GROUPS, P in x y z w
offsets_G = fma(vec4<f32>(offset.P), w_G_P, offsets_G);
//#endfor
//#endif
//#for L in 0..LOADS
let v_L = a_four(a_L, k) - pivot_L;
moment_L = moment_L + v_L;
square_L = fma(v_L, v_L, square_L);
let l_L = v_L * gain;
//#endfor
//#elif BROADCASTS
//#for L in 0..LOADS
let l_L = A_four(a_L, k);
//#endfor
//#endif
//#for R in 0..ROWS
//#if BROADCASTS
//#let L = R / LANES
//#let LANE = R % LANES
let x_R = subgroupBroadcast(l_L, LANE);
//#else
let x_R = A_four(a_R, k);
//#endif
//#for P in x y z w, G in 0..GROUPS
s_R_G = fma(vec4<f32>(x_R.P), w_G_P, s_R_G);
//#endfor
//#endfor
