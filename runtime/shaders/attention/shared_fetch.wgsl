// In attention/shared.wgsl: asks memory for a word of the keys and of the queries.

//#param WORD: wgsl

//#for I in 0..KEY_LOADS
next_k_I = k_slice(key_start_I, WORD);
//#endfor
//#for I in 0..QUERY_LOADS
next_q_I = q_slice(query_I, WORD);
//#endfor
