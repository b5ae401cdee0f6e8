// y[i] = expression(inputs[i]) with broadcasting.
//
// y is dense; each input has a stride per dimension, 0 where it is broadcast. Grid: count / 64.

//#param EXPRESSION: wgsl // of the inputs and scalars, by name
//#param ACTIVATIONS: words // those that it calls
//#param INPUTS: words
//#param SPLATS: words // the inputs that are constant along the innermost dimension
//#param SCALARS: words
//#param RANK: u32 // dimensions after merging
//#param WIDTH: u32 // elements per invocation; 4 needs an innermost size divisible by 4

//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"
//#for X in INPUTS
//#let OWN_WIDTH = X in SPLATS ? 1 : WIDTH
//#buffer read       X      OWN_WIDTH
//#endfor
//#buffer read_write result WIDTH
//#uniform count: u32 // words of y
//#for D in 0..RANK
//#uniform size_D: u32
//#endfor
//#for X in INPUTS, D in 0..RANK
//#uniform X_stride_D: u32
//#endfor
//#for S in SCALARS
//#uniform S: f32
//#endfor
//#workgroup 64, 1, 1

//#for A in ACTIVATIONS
//#include "shared/activation.wgsl" ACTIVATION=A
//#endfor

fn evaluate(
  //#for X in INPUTS
  X: T,
  //#endfor
) -> T {
  //#for S in SCALARS
  let S = T(params.S);
  //#endfor
  return T(EXPRESSION);
}

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  //#include "shared/coordinates.wgsl" INDEX="i * WIDTH"
  //#for X in INPUTS
  let X_place = c_0 * params.X_stride_0
    //#for D in 1..RANK
    + c_D * params.X_stride_D
    //#endfor
    ;
  //#if X in SPLATS
  let X = T(X_at(X_place));
  //#else
  let X = X_at(X_place / WIDTH);
  //#endif
  //#endfor
  result_put(i, evaluate(
    //#for X in INPUTS
    X,
    //#endfor
  ));
}
