// In attention/shared.wgsl: brings a chunk of the queries into their tile, scaled.

//#param CHUNK: wgsl

//#for I in 0..SIDE
{
  let row = tile_row + I * THREADS;
  let start = q_start + min(row0 + row, params.lq - 1u) * q_step;
  tile_q[row * STRIDE + tile_word] = q_slice(start, CHUNK * TILE_WORDS + tile_word) * params.scale;
}
//#endfor
