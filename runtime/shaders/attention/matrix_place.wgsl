// In attention/matrix.wgsl: puts the keys that came into their tile.

//#for L in 0..LOADS
//#if LOADS * THREADS > KEYS * DIM_WORDS
if (key_L < KEYS) { tile[key_L * TILE_STEP + word_L] = next_L; }
//#else
tile[key_L * TILE_STEP + word_L] = next_L;
//#endif
//#endfor
