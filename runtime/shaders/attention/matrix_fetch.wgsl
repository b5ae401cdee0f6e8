// In attention/matrix.wgsl: asks memory for the keys, or values, from FROM on.

//#param X: word // k or v
//#param FROM: wgsl

//#for L in 0..LOADS
next_L = FACTOR(X_slice(kv_start + min(FROM + key_L, end - 1u) * kv_step, word_L));
//#endfor
