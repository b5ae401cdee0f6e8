// Access by place in the sum, for kernels that gather pixels tap by tap: the sum runs over frames,
// rows and columns of the kernel, then over words of input channels. A table in workgroup memory
// says where each tap lies, so that a place costs no division and an access no multiplication.
//
// With NORM the input is normalised on its way: act((x - pivot) * factor + offset), one of each per
// batch entry and channel, as norm/group_combine.wgsl writes them; what is padded stays zero.

//#param CACHE: bool
//#param UPSAMPLED: bool = false // the input is seen at twice its size
//#param NORM: bool = false // needs !CACHE
//#param NORM_ACTIVATION: word = none // of shared/activation.wgsl
//#param TAPS: u32 // that the table has room for
//#param THREADS: u32
//#param WIDTH: u32
//#param T: wgsl
//#param ELEMENT: f16 | f32 = f32 // of what an access of four gives

//#let PER_WORD = 4 / WIDTH // accesses of four elements of the sum
//#let IS_HALF = ELEMENT == f16 && WIDTH == 4
//#let FACTORS = WIDTH == 4 ? "vec4<ELEMENT>" : "f32" // what an access gives

//#if NORM
//#buffer read affine WIDTH // [batch, 3, words * WIDTH]: pivots, factors, offsets
//#let ACTED = NORM_ACTIVATION
//#include "shared/activation.wgsl" ACT=norm, ACTIVATION=NORM_ACTIVATION
//#endif

// Of each tap: how many rows and columns it is from a pixel's first one; how many words from there to
// it, counted from frame to frame, or with UPSAMPLED where its frame begins; whether it is in the
// cache. The entry behind the last is outside of every image.
var<workgroup> taps: array<vec4<u32>, TAPS + 1>;

const OUTSIDE = 0x40000000u;

fn tap_count() -> u32 { return params.k_frames * params.k_height * params.k_width; }

// Fills the table; whoever reads it waits for a barrier before.
fn find_taps(thread: u32, batch: u32, time: u32) {
  let plane = params.k_height * params.k_width;
  let count = tap_count();
  for (var tap = thread; tap <= count; tap = tap + THREADS) {
    let row = tap % plane / params.k_width;
    let column = tap % params.k_width;
    let age = time + tap / plane - params.front;
    //#if CACHE
    let is_cached = age < params.cache_frames;
    let later = batch * params.x_frames + age - params.cache_frames;
    let frame = select(later, batch * params.cache_frames + age, is_cached);
    //#else
    let is_cached = false;
    let frame = batch * params.x_frames + age;
    //#endif
    //#if UPSAMPLED
    let first = frame * params.x_height * params.x_width * params.words;
    //#else
    let first = ((frame * params.x_height + row) * params.x_width + column) * params.words;
    //#endif
    taps[tap] = vec4<u32>(select(row, OUTSIDE, tap == count), column, first, u32(is_cached));
  }
}

// A place in the sum: which tap, and which word of its channels.
struct Place {
  tap: u32,
  word: u32,
}

// Of element or word k of the sum. It takes divisions: loops go on from it with further().
fn place_of(k: u32) -> Place { return Place(k / params.words, k % params.words); }

// So many elements or words of the sum after a place.
fn further(place: Place, count: u32) -> Place {
  var next = place;
  next.word = next.word + count;
  while (next.word >= params.words) {
    next.word = next.word - params.words;
    next.tap = next.tap + 1u;
  }
  return next;
}

// Where in the input the words of a place lie, the same for all pixels.
struct Tap {
  row: u32,
  column: u32,
  first: u32,
  is_cached: bool,
  //#if NORM
  pivot: T,
  factor: T,
  offset: T,
  //#endif
}

fn tap_of(place: Place, batch: u32) -> Tap {
  let found = taps[min(place.tap, tap_count())];
  let first = found.z + place.word;
  //#if NORM
  let at = batch * 3u * params.words + place.word;
  let factor = affine_at(at + params.words);
  let offset = affine_at(at + 2u * params.words);
  return Tap(found.x, found.y, first, false, affine_at(at), factor, offset);
  //#else
  return Tap(found.x, found.y, first, found.w != 0u);
  //#endif
}

// Row and column of the first tap of a frame's pixel, and words from the frame's first pixel to it;
// in front of the frame all of them have wrapped around.
fn origin_of(pixel: u32) -> vec3<u32> {
  let row = (pixel / params.y_width) * params.stride_h - u32(params.pad_top);
  let column = (pixel % params.y_width) * params.stride_w - u32(params.pad_left);
  return vec3<u32>(row, column, (row * params.x_width + column) * params.words);
}

// The value of a tap for the pixel whose first one is at origin; zero outside.
//#let READ = IS_HALF && !NORM ? half : at
fn tap_at(tap: Tap, origin: vec3<u32>) -> FACTORS {
  let row = origin.x + tap.row;
  let column = origin.y + tap.column;
  let is_inside = row < u32(params.seen_height) && column < u32(params.seen_width);
  //#if UPSAMPLED
  let seen = tap.first + ((row >> 1u) * params.x_width + (column >> 1u)) * params.words;
  //#else
  let seen = tap.first + origin.z;
  //#endif
  // Loads do not wait for a branch: outside it is the first word that is loaded.
  let word = select(0u, seen, is_inside);
  //#if CACHE
  if (tap.is_cached) { return select(FACTORS(), cache_READ(word), is_inside); }
  //#endif
  //#if NORM
  let normed = norm_ACTED((x_at(word) - tap.pivot) * tap.factor + tap.offset);
  //#if IS_HALF
  return select(FACTORS(), half4(normed), is_inside);
  //#else
  return select(FACTORS(), normed, is_inside);
  //#endif
  //#else
  return select(FACTORS(), x_READ(word), is_inside);
  //#endif
}

// Four weights from element or word k of the sum on, of the row at row; zeros from end on.
//#if WIDTH == 4
//#let STORED = IS_HALF ? half : at
fn weight_four(k: u32, end: u32, row: u32) -> vec4<ELEMENT> {
  if (k >= end) { return vec4<ELEMENT>(); }
  return weight_STORED(row + k);
}
//#else
//#let ROUND = ELEMENT == f16 ? half4 : ""
fn weight_one(k: u32, end: u32, row: u32) -> f32 {
  if (k >= end) { return 0.0; }
  return weight_at(row + k);
}
fn weight_four(k: u32, end: u32, row: u32) -> vec4<ELEMENT> {
  return ROUND(vec4<f32>(
    weight_one(k, end, row),
    weight_one(k + 1u, end, row),
    weight_one(k + 2u, end, row),
    weight_one(k + 3u, end, row),
  ));
}
//#endif
