// What bounds every op: multiply-adds in registers, s = s * factor + offset.
//
// Grid: invocations / LANES, exactly.

//#param LANES: u32
//#param CHAINS: u32 // that do not wait for each other
//#param STEPS: u32 // of every chain per turn of the loop

//#buffer read       x 1 // [invocations]
//#buffer read_write y 1
//#uniform turns: u32
//#uniform factor: f32
//#uniform offset: f32
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * LANES + local.x;
  let factor = params.factor;
  let offset = params.offset;
  let x = x_at(i);
  //#for C in 0..CHAINS
  var s_C = x + f32(C);
  //#endfor
  for (var turn = 0u; turn < params.turns; turn++) {
    //#for S in 0..STEPS, C in 0..CHAINS
    s_C = fma(s_C, factor, offset);
    //#endfor
  }
  y_put(i,
    s_0
    //#for C in 1..CHAINS
    + s_C
    //#endfor
  );
}
