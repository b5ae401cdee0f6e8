// In gemm/registers.wgsl: eight steps along the sum, four from access k0 + j of the rows on and four
// from the access in the other half of the run. A sum takes all of them before the next one is
// touched, so that it is loaded, masked and stored once.

//#for H in 0..2
//#let HALF = H == 0 ? low : high
//#for L in 0..LOADS
let l_H_L = a_four(a_L, k0 + H * 4u + j);
//#endfor
//#for G in 0..GROUPS
//#for I in 0..4
//#let C = G * 4 + I
let c_H_G_I = b_unpacked(HALF_C.x, run_C.HALF_factor, run_C.HALF_offset);
//#endfor
//#for P in x y z w
let w_H_G_P = vec4<f32>(c_H_G_0.P, c_H_G_1.P, c_H_G_2.P, c_H_G_3.P);
//#endfor
//#endfor
//#endfor
//#for R in 0..ROWS
//#let L = BROADCASTS ? R / LANES : R
//#let LANE = R % LANES
//#for H in 0..2
//#let X = BROADCASTS ? "subgroupBroadcast(l_H_L, LANE)" : "l_H_L"
let x_H_R = X;
//#for P in x y z w, G in 0..GROUPS
s_R_G = fma(vec4<f32>(x_H_R.P), w_H_G_P, s_R_G);
//#endfor
//#endfor
//#endfor
