// In attention/shared.wgsl: puts what came into a part of the tile.

//#param PLACE: wgsl // of the first row's word

// Key 4x + j of a half lies in row 8j + x of it, so that the invocations of a row read neighbouring rows.
//#for I in 0..KEY_LOADS
tile[PLACE + (I * LOADED + load_row % 4u * ACROSS + load_row / 4u) * STRIDE] = ROUND(next_k_I);
//#endfor
//#if !HALF
//#for I in 0..QUERY_LOADS
tile[PLACE + KEY_PART + (I * LOADED + load_row) * STRIDE] = next_q_I;
//#endfor
//#endif
