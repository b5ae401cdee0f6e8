// Access by place in the sum, for kernels that gather pixels tap by tap: the sum runs over frames,
// rows and columns of the kernel, then over words of input channels.

//#param CACHE: bool
//#param WIDTH: u32
//#param T: wgsl

//#let PER_WORD = 4 / WIDTH // accesses of four elements of the sum

// A place in the sum: which row and column of the kernel, and where in the input its words lie.
struct Tap {
  is_there: bool,
  row: i32,
  column: i32,
  line: u32,
  word: u32,
  //#if CACHE
  is_cached: bool,
  //#endif
}

// The tap of element or word k of the sum, the same for all pixels.
fn tap_of(k: u32, end: u32, batch: u32, time: u32) -> Tap {
  let tap = k / params.words;
  let line = tap / params.k_width;
  let age = time + line / params.k_height - params.front;
  //#if CACHE
  let is_cached = age < params.cache_frames;
  let frame = select(batch * params.x_frames + age - params.cache_frames, batch * params.cache_frames + age, is_cached);
  //#else
  let frame = batch * params.x_frames + age;
  //#endif
  let row = i32(line % params.k_height);
  let column = i32(tap % params.k_width);
  //#if CACHE
  return Tap(k < end, row, column, frame * params.x_height, k % params.words, is_cached);
  //#else
  return Tap(k < end, row, column, frame * params.x_height, k % params.words);
  //#endif
}

// Its value for the pixel whose first tap is at origin (row, column); zero outside.
fn tap_at(tap: Tap, origin: vec2<i32>) -> T {
  let row = origin.x + tap.row;
  let column = origin.y + tap.column;
  if (!tap.is_there || row < 0 || row >= params.seen_height || column < 0 || column >= params.seen_width) {
    return T(0.0);
  }
  let h = u32(row) >> params.up_shift;
  let v = u32(column) >> params.up_shift;
  let word = ((tap.line + h) * params.x_width + v) * params.words + tap.word;
  //#if CACHE
  if (tap.is_cached) { return cache_at(word); }
  //#endif
  return x_at(word);
}

// Where the first tap of a frame's pixel lies.
fn origin_of(pixel: u32) -> vec2<i32> {
  let row = i32((pixel / params.y_width) * params.stride_h) - params.pad_top;
  let column = i32((pixel % params.y_width) * params.stride_w) - params.pad_left;
  return vec2<i32>(row, column);
}

// Four weights from element or word k of the sum on, of the row at row; zeros from end on.
//#if WIDTH == 4
fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  if (k >= end) { return vec4<f32>(0.0); }
  return weight_at(row + k);
}
//#else
fn weight_one(k: u32, end: u32, row: u32) -> f32 {
  if (k >= end) { return 0.0; }
  return weight_at(row + k);
}
fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  return vec4<f32>(
    weight_one(k, end, row),
    weight_one(k + 1u, end, row),
    weight_one(k + 2u, end, row),
    weight_one(k + 3u, end, row),
  );
}
//#endif
