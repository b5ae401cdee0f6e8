// First of three kernels of groupNorm. Per channel and chunk of positions: the mean of x - x[b, 0,
// c], and the sum of squared deviations from that mean.
//
// One invocation per (batch entry, chunk, word). Grid: batch * chunks * words / 64.

//#param WIDTH: u32

//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"
//#buffer read       x       WIDTH // [batch, positions, words * WIDTH]
//#buffer read_write partial WIDTH // [batch, chunks, 2, words * WIDTH]
//#uniform count: u32 // invocations that do work
//#uniform words: u32
//#uniform positions: u32
//#uniform chunks: u32
//#uniform chunk_rows: u32 // positions of a chunk; the last one may have fewer
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.count) { return; }
  let words = params.words;
  let word = id % words;
  let block = id / words;
  let chunk = block % params.chunks;
  let origin = (block / params.chunks) * params.positions * words + word;
  let pivot = x_at(origin);
  let first = chunk * params.chunk_rows;
  let last = min(first + params.chunk_rows, params.positions);
  let inverse = 1.0 / f32(last - first);
  //#let FROM = first
  //#let TO = last
  //#let STEP = 1
  //#include "shared/sum.wgsl" NAME=moment, VALUE="x_at(origin + i * words) - pivot"
  let mean = moment * inverse;
  //#include "shared/sum.wgsl" NAME=spread, VALUE="(x_at(origin + i * words) - pivot) - mean", SQUARED=true
  let at = block * 2u * words + word;
  partial_put(at, mean);
  partial_put(at + words, spread);
}
