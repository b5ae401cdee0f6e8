// finish(row, column, sum): what a matrix product does with a sum, or the four from column on,
// before it stores them: y = residual + gate * activation(scale * sum + bias). Parts that are left
// out cost nothing. A gated linear unit hands it glu(column, sum, other sum), which it stores as it is.
//
// With ASKS, gate and residual are bound whether there are any or not, and the dispatch says so: one
// kernel to compile in place of four.
//
// A low-rank branch t · upᵀ is added to the sums: every kernel walks along it, too, before it calls
// finish.

//#param Y_WIDTH: u32 // 4 needs n % 4 == 0
//#param SCALE: bool = false
//#param BIAS: bool = false
//#param ADDS_BIAS: bool = BIAS // false where the sums begin at it
//#param GATE: bool = false
//#param RESIDUAL: bool = false
//#param ASKS: bool = false // needs GATE and RESIDUAL
//#param PARTS: bool = false // the columns are cut into equal parts, whose results lie one after the other
//#param GLU: bool = false // sums come in pairs, and a pair makes one element
//#param GLU_GATE: first | second = first // the sum of a pair that is activated
//#param LOW_RANK: bool = false
//#param VECTOR_RANK: bool = true // rank is a multiple of 4

//#let T = Y_WIDTH == 4 ? "vec4<f32>" : "f32"
//#if BIAS
//#buffer read       bias     Y_WIDTH // [n], of both halves with GLU
//#endif
//#if GATE
//#buffer read       gate     Y_WIDTH // [m / gate_rows, n]
//#endif
//#if RESIDUAL
//#buffer read       residual Y_WIDTH // [m, n]
//#endif
//#if LOW_RANK
//#let RANK_WIDTH = VECTOR_RANK ? 4 : 1
//#buffer read       t        RANK_WIDTH // [m, rank]
//#buffer read       up       RANK_WIDTH // [n, rank], rows as b has
//#endif
//#buffer read_write y        Y_WIDTH // [m, n], or [n / part_columns, m, part_columns]
//#if SCALE
//#uniform scale: f32
//#endif
//#if GATE
//#uniform gate_rows: u32 // rows that share a row of gates
//#endif
//#if ASKS
//#uniform has_gate: u32
//#uniform has_residual: u32
//#endif
//#if PARTS
//#uniform part_columns: u32
//#uniform part_size: u32 // elements of a part
//#endif
//#if LOW_RANK
//#uniform rank: u32
//#include "gemm/row.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/row.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif
//#include "shared/activation.wgsl"

//#if GLU
// first is the sum of a column in the first half of b, second that of the column in the other half.
fn glu(column: u32, first: T, second: T) -> T {
  //#if BIAS
  let a = first + bias_at(column / Y_WIDTH);
  let b = second + bias_at((column + params.n) / Y_WIDTH);
  //#else
  let a = first;
  let b = second;
  //#endif
  //#if GLU_GATE == first
  return act_ACTIVATION(a) * b;
  //#else
  return a * act_ACTIVATION(b);
  //#endif
}
//#endif

// Where the results of a column begin, and how far apart rows are, in elements.
//#if PARTS
fn place_of(column: u32) -> u32 {
  return (column / params.part_columns) * params.part_size + column % params.part_columns;
}
//#let PLACE_STEP = "params.part_columns"
//#else
fn place_of(column: u32) -> u32 { return column; }
//#let PLACE_STEP = "params.n"
//#endif

fn finish(row: u32, column: u32, sum: T) { finish_at(place_of(column), row, column, sum); }

// finish() for whoever has place_of(column) at hand.
fn finish_at(place: u32, row: u32, column: u32, sum: T) {
  let at = (place + row * PLACE_STEP) / Y_WIDTH;
  var v = sum;
  //#if SCALE
  v = v * params.scale;
  //#endif
  //#if ADDS_BIAS && !GLU
  v = v + bias_at(column / Y_WIDTH);
  //#endif
  //#if !GLU
  v = act_ACTIVATION(v);
  //#endif
  //#if GATE
  //#let GATE_AT = "gate_at(((row / params.gate_rows) * params.n + column) / Y_WIDTH)"
  //#if ASKS
  if (params.has_gate != 0u) { v = v * GATE_AT; }
  //#else
  v = v * GATE_AT;
  //#endif
  //#endif
  //#if ASKS
  if (params.has_residual != 0u) { v = v + residual_at(at); }
  //#elif RESIDUAL
  v = v + residual_at(at);
  //#endif
  y_put(at, v);
}
