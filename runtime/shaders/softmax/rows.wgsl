// What both kernels of softmax read and write: rows of n elements, four at a time.

//#param VECTOR_N: bool // n is a multiple of 4

//#let WIDTH = VECTOR_N ? 4 : 1
//#buffer read       x WIDTH // [rows, n]
//#buffer read_write y WIDTH
//#uniform rows: u32
//#uniform n: u32
//#uniform scale: f32

// Below every logit; what is finite survives a subtraction of another finite number.
const LOWEST = -3.0e38;
// A power of e whose result is 0 in f32: differences below it need not be exact.
const FLOOR = vec4<f32>(-110.0);

// Elements 4 word … 4 word + 3 of the row at start; those past its end are minus infinity for the
// softmax.
//#if VECTOR_N
fn four(start: u32, word: u32) -> vec4<f32> { return x_at(start + word) * params.scale; }
fn put(start: u32, word: u32, v: vec4<f32>) { y_put(start + word, v); }
//#else
fn one(start: u32, i: u32) -> f32 {
  return select(LOWEST, x_at(start + min(i, params.n - 1u)) * params.scale, i < params.n);
}
fn four(start: u32, word: u32) -> vec4<f32> {
  return vec4<f32>(
    one(start, 4u * word),
    one(start, 4u * word + 1u),
    one(start, 4u * word + 2u),
    one(start, 4u * word + 3u),
  );
}
fn put(start: u32, word: u32, v: vec4<f32>) {
  //#for C in 0..4
  if (4u * word + C < params.n) { y_put(start + 4u * word + C, v[C]); }
  //#endfor
}
//#endif
