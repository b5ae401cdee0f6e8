// In attention/shared.wgsl: puts what came into the tiles.

// Key 4x + j lies in row x of block j, so that the invocations of a row read neighbouring rows.
//#for I in 0..KEY_LOADS
//#let BLOCK = I * LOADED / FOURS_KEYS * 4
//#let ROW = I * LOADED % FOURS_KEYS / 4
tile_kv[BLOCK + load_row % 4u][(ROW + load_row / 4u) * STRIDE + load_word] = next_k_I;
//#endfor
//#if QUERIES < LOADED
if (load_row < QUERIES) { tile_qw[load_row / DOWN][load_row % DOWN * STRIDE + load_word] = next_q_0; }
//#else
//#for I in 0..QUERY_LOADS
tile_qw[I * LOADED / DOWN + load_row / DOWN][load_row % DOWN * STRIDE + load_word] = next_q_I;
//#endfor
//#endif
