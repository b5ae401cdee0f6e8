// In attention/matrix.wgsl: asks memory for the keys from FROM on.

//#param FROM: wgsl

//#for L in 0..LOADS
next_L = FACTOR(k_slice(kv_start + min(FROM + key_L, end - 1u) * kv_step, word_L));
//#endfor
