// In attention/matrix.wgsl: brings the keys, or values, of a step into their tile.

//#param X: word // k or v

for (var item = thread; item < KEYS * DIM_WORDS; item = item + THREADS) {
  let key = item / DIM_WORDS;
  let word = item % DIM_WORDS;
  let start = kv_start + min(key0 + key, end - 1u) * kv_step;
  tile[key * TILE_STEP + word] = half4(X_slice(start, word));
}
