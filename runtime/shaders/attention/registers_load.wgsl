// In attention/registers.wgsl, with broadcasts: the lanes load the words of slot I's key, or value,
// at AT.

//#param X: word // k or v
//#param AT: wgsl
//#param I: u32

//#if BROADCASTS
//#for L in 0..LOADS
let X_lanes_I_L = X_at(AT + min(L * LANES + local.x, WORDS - 1u));
//#endfor
//#endif
