// In attention/shared.wgsl: asks memory for the words of a value that an invocation brings.

//#param VALUE: wgsl

{
  let start = kv_start + min(VALUE, end - 1u) * kv_step;
  //#for C in 0..STRIPS
  next_v_C = v_slice(start, local.x + C * ACROSS);
  //#endfor
}
