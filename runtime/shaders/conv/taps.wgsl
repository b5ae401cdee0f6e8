// Access by place in the sum, for kernels that gather pixels tap by tap: the sum runs over frames,
// rows and columns of the kernel, then over words of input channels.

//#param CACHE: bool
//#param WIDTH: u32
//#param T: wgsl

//#let PER_WORD = 4 / WIDTH // accesses of four elements of the sum

// A place in the sum: which frame, row and column of the kernel, and which word of the channels.
struct Place {
  frame: u32,
  row: u32,
  column: u32,
  word: u32,
}

// Of element or word k of the sum. It takes divisions: loops go on from it with further().
fn place_of(k: u32) -> Place {
  let tap = k / params.words;
  let line = tap / params.k_width;
  return Place(line / params.k_height, line % params.k_height, tap % params.k_width, k % params.words);
}

// So many elements or words of the sum after a place.
fn further(place: Place, count: u32) -> Place {
  var next = place;
  next.word = next.word + count;
  while (next.word >= params.words) {
    next.word = next.word - params.words;
    next.column = next.column + 1u;
    let wraps = next.column == params.k_width;
    next.column = select(next.column, 0u, wraps);
    next.row = next.row + select(0u, 1u, wraps);
    let ends = next.row == params.k_height;
    next.row = select(next.row, 0u, ends);
    next.frame = next.frame + select(0u, 1u, ends);
  }
  return next;
}

// Where in the input the words of a place lie, the same for all pixels.
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

fn tap_of(place: Place, batch: u32, time: u32) -> Tap {
  let age = time + place.frame - params.front;
  //#if CACHE
  let is_cached = age < params.cache_frames;
  let frame = select(batch * params.x_frames + age - params.cache_frames, batch * params.cache_frames + age, is_cached);
  //#else
  let frame = batch * params.x_frames + age;
  //#endif
  let is_there = place.frame < params.k_frames;
  let line = frame * params.x_height;
  //#if CACHE
  return Tap(is_there, i32(place.row), i32(place.column), line, place.word, is_cached);
  //#else
  return Tap(is_there, i32(place.row), i32(place.column), line, place.word);
  //#endif
}

// Its value for the pixel whose first tap is at origin (row, column); zero outside.
fn tap_at(tap: Tap, origin: vec2<i32>) -> T {
  let row = origin.x + tap.row;
  let column = origin.y + tap.column;
  let is_inside = tap.is_there && row >= 0 && row < params.seen_height && column >= 0 && column < params.seen_width;
  let h = u32(row) >> params.up_shift;
  let v = u32(column) >> params.up_shift;
  // Loads do not wait for a branch: outside it is the first word that is loaded.
  let word = select(0u, ((tap.line + h) * params.x_width + v) * params.words + tap.word, is_inside);
  //#if CACHE
  if (tap.is_cached) { return select(T(), cache_at(word), is_inside); }
  //#endif
  return select(T(), x_at(word), is_inside);
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
