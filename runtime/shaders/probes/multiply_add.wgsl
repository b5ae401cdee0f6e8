// What bounds every op: multiply-adds in registers, s = s * factor + offset, with numbers of one type.
//
// Grid: invocations / LANES, exactly.

//#param LANES: u32
//#param TYPE: f32 | f16 | i8 = f32 // f16 by twos, int8 as sums of four products
//#param CHAINS: u32 // that do not wait for each other
//#param STEPS: u32 // of every chain per turn of the loop

//#buffer read       x 1 // [invocations]
//#buffer read_write y 1
//#uniform turns: u32
//#uniform factor: f32
//#uniform offset: f32
//#workgroup LANES, 1, 1

//#if TYPE == f16
enable f16;
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * LANES + local.x;
  let x = x_at(i);
  //#if TYPE == f32
  let factor = params.factor;
  let offset = params.offset;
  //#elif TYPE == f16
  let factor = vec2<f16>(f16(params.factor));
  let offset = vec2<f16>(f16(params.offset));
  //#else
  let factor = bitcast<u32>(params.factor);
  //#endif
  //#for C in 0..CHAINS
  //#if TYPE == f32
  var s_C = x + f32(C);
  //#elif TYPE == f16
  var s_C = vec2<f16>(f16(x), f16(f32(C)));
  //#else
  var s_C = bitcast<u32>(x + f32(C));
  //#endif
  //#endfor
  for (var turn = 0u; turn < params.turns; turn++) {
    //#for S in 0..STEPS, C in 0..CHAINS
    //#if TYPE == i8
    s_C = s_C + bitcast<u32>(dot4I8Packed(s_C, factor));
    //#else
    s_C = fma(s_C, factor, offset);
    //#endif
    //#endfor
  }
  //#if TYPE == f32
  var sum = s_0;
  //#elif TYPE == f16
  var sum = f32(s_0.x) + f32(s_0.y);
  //#else
  var sum = f32(s_0);
  //#endif
  //#for C in 1..CHAINS
  //#if TYPE == f32
  sum += s_C;
  //#elif TYPE == f16
  sum += f32(s_C.x) + f32(s_C.y);
  //#else
  sum += f32(s_C);
  //#endif
  //#endfor
  y_put(i, sum);
}
