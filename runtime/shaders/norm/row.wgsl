// y[r] = act((n(x[r]) * weight + bias) * (1 + scale[m(r)]) + shift[m(r)]), n by KIND; with residual
// and gate, residual[r] + tanh(gate[m(r)]) * that.
//
// scale, shift and gate have rows of their own, of which row r takes (r / div) % mod. Mean and variance
// are of x - pivot, the row's first element: two passes, exact for rows far from zero. All vectors
// are of words * WIDTH elements. Workgroup: a row of invocations along x, because software adapters
// make vectors of those; grid: row_count / ROWS.

//#param KIND: layer | rms | l2 // by mean and variance, root of the mean square, Euclidean length
//#param WIDTH: u32
//#param LANES: u32 // invocations that share a row: 1, or a power of two whose sums meet in workgroup memory
//#param ROWS: u32 // per workgroup
//#param WEIGHT: none | shared | parts = none // parts: rows belong to equal parts, each with a weight of its own
//#param BIAS: bool = false
//#param SCALE: bool = false
//#param SHIFT: bool = false
//#param GATE: bool = false
//#param RESIDUAL: bool = false
//#param ROTARY: bool = false // turns neighbouring pairs, last of all; needs WIDTH 4

//#let T = WIDTH == 4 ? "vec4<f32>" : "f32"
//#buffer read       x         WIDTH // [row_count, words * WIDTH]
//#if WEIGHT != none
//#buffer read       weight    WIDTH // one vector, or [row_count / part_rows, words * WIDTH]
//#endif
//#if BIAS
//#buffer read       bias      WIDTH
//#endif
//#if SCALE
//#buffer read       scale     WIDTH
//#endif
//#if SHIFT
//#buffer read       shift     WIDTH
//#endif
//#if GATE
//#buffer read       gate      WIDTH
//#endif
//#if RESIDUAL
//#buffer read       residual  WIDTH // as x
//#endif
//#if ROTARY
//#buffer read       cos_table 1     // [positions, 2 * head_words]; row r takes r / position_rows % positions
//#buffer read       sin_table 1
//#endif
//#buffer read_write y         WIDTH
//#uniform row_count: u32
//#uniform words: u32 // of a row
//#uniform eps: f32
//#if SCALE
//#uniform scale_div: u32
//#uniform scale_mod: u32
//#endif
//#if SHIFT
//#uniform shift_div: u32
//#uniform shift_mod: u32
//#endif
//#if GATE
//#uniform gate_div: u32
//#uniform gate_mod: u32
//#endif
//#if WEIGHT == parts
//#uniform part_rows: u32
//#endif
//#if ROTARY
//#uniform positions: u32
//#uniform position_rows: u32
//#uniform head_words: u32 // words of a head
//#endif
//#workgroup LANES * ROWS, 1, 1

//#include "shared/activation.wgsl"
//#if ROTARY
//#include "rope/turn_fours.wgsl"
//#endif
//#if LANES > 1
var<workgroup> parts: array<f32, LANES * ROWS>;
//#include "shared/reduce.wgsl" NAME=sum, JOIN="a + b"
//#endif

// The sum of a row, given the invocation's share of it.
fn row_sum(own: T, at: u32) -> f32 {
  //#if WIDTH == 4
  let sum = (own.x + own.y) + (own.z + own.w);
  //#else
  let sum = own;
  //#endif
  //#if LANES > 1
  return reduce_sum(sum, at);
  //#else
  return sum;
  //#endif
}

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  // All invocations go through the sums, those past the last row too: they may have to wait for
  // each other.
  let unclamped = wg.x * ROWS + local.x / LANES;
  let row = min(unclamped, params.row_count - 1u);
  let base = row * params.words;
  let size = f32(params.words * WIDTH);
  // A constant where it can be one: then drivers see that all rows read the same words of the
  // weight.
  //#let FROM = LANES > 1 ? "local.x % LANES" : "0u"
  //#let TO = "params.words"
  //#let STEP = LANES
  //#if KIND == layer
  //#let HEAD = WIDTH == 4 ? "x_at(base).x" : "x_at(base)"
  let pivot = T(HEAD);
  //#include "shared/sum.wgsl" NAME=moment, VALUE="x_at(base + i) - pivot"
  let offset = T(row_sum(moment, local.x) / size);
  //#include "shared/sum.wgsl" NAME=spread, VALUE="(x_at(base + i) - pivot) - offset", SQUARED=true
  let factor = inverseSqrt(row_sum(spread, local.x) / size + params.eps);
  //#else
  //#include "shared/sum.wgsl" NAME=square, VALUE="x_at(base + i)", SQUARED=true
  //#if KIND == rms
  let factor = inverseSqrt(row_sum(square, local.x) / size + params.eps);
  //#else
  let factor = sqrt(size) / max(sqrt(row_sum(square, local.x)), params.eps);
  //#endif
  //#endif
  if (unclamped >= params.row_count) { return; }
  //#if SCALE
  let scale_base = ((row / params.scale_div) % params.scale_mod) * params.words;
  //#endif
  //#if SHIFT
  let shift_base = ((row / params.shift_div) % params.shift_mod) * params.words;
  //#endif
  //#if GATE
  let gate_base = ((row / params.gate_div) % params.gate_mod) * params.words;
  //#endif
  //#if WEIGHT == parts
  let weight_base = (row / params.part_rows) * params.words;
  //#endif
  //#if ROTARY
  let angles = (row / params.position_rows % params.positions) * params.head_words;
  //#endif
  for (var i = FROM; i < TO; i += STEP) {
    //#if KIND == layer
    var v = ((x_at(base + i) - pivot) - offset) * factor;
    //#else
    var v = x_at(base + i) * factor;
    //#endif
    //#if WEIGHT == shared
    v = v * weight_at(i);
    //#elif WEIGHT == parts
    v = v * weight_at(weight_base + i);
    //#endif
    //#if BIAS
    v = v + bias_at(i);
    //#endif
    //#if SCALE
    v = v * (1.0 + scale_at(scale_base + i));
    //#endif
    //#if SHIFT
    v = v + shift_at(shift_base + i);
    //#endif
    v = act_ACTIVATION(v);
    //#if GATE
    v = tanh(clamp(gate_at(gate_base + i), T(-15.0), T(15.0))) * v;
    //#endif
    //#if RESIDUAL
    v = residual_at(base + i) + v;
    //#endif
    //#if ROTARY
    v = turned(v, (angles + i % params.head_words) * 2u);
    //#endif
    y_put(base + i, v);
  }
}
