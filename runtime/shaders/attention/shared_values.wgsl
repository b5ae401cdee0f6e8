// In attention/shared.wgsl: asks memory for the words of a value that an invocation brings.

//#param FIRST: wgsl // of the values in the tile

{
  let start = kv_start + min(FIRST + local.y, end - 1u) * kv_step;
  //#for C in 0..STRIPS
  next_v_C = v_slice(start, local.x + C * ACROSS);
  //#endfor
  //#if TAIL > 0
  next_tail = v_slice(start, min(local.x, REST - 1u) + STRIPS * ACROSS);
  //#endif
}
